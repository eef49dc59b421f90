//! Seccomp: profiles, and the programs that the kernel runs for them at every system call.
//!
//! A profile is the runtime's default or a file in the OCI's format. Every architecture that the machine runs
//! programs of has its part in the filter; calls of any other end the process.

mod program;

use serde::Deserialize;

use super::plan::capabilities;
use crate::{Error, Result};
use program::{Architecture, Operation, Rule, Test};

const ALLOW: u32 = 0x7fff_0000;
const ERRNO: u32 = 0x0005_0000;
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// What the default profile allows, by what it takes.
const DEFAULT: &str = include_str!("seccomp/default.rules");

/// Namespaces that only administrators make.
const NEW_NAMESPACES: u64 = 0x7e02_0000;

/// The program of the default profile, for a container with these capabilities.
pub(crate) fn runtime_default(capabilities: u64) -> Result<Vec<u64>> {
    let rules = default_rules(capabilities)?;
    Ok(program::compile(&Architecture::here(), ERRNO | EPERM, &rules))
}

fn default_rules(capabilities: u64) -> Result<Vec<Rule>> {
    let rule = |names: Vec<String>, action, tests| Rule { names, action, tests };
    let mut rules = Vec::new();
    let text = DEFAULT.replace("\n    ", " ");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((condition, names)) = line.split_once(':') else { continue };
        let holds = match condition.split_once(' ') {
            Some(("capability", name)) => capabilities & capabilities::bits([name].into_iter())? != 0,
            Some((_, architecture)) => architecture == std::env::consts::ARCH,
            None => true,
        };
        if holds {
            rules.push(rule(names.split_whitespace().map(str::to_owned).collect(), ALLOW, Vec::new()));
        }
    }
    let when = |operation, value, mask| vec![Test { argument: 0, operation, value, mask }];
    let named = |name: &str| vec![name.to_owned()];
    // Every family but the kernel's own cryptography (38) and virtual machines' (40).
    for (operation, family) in [(Operation::Less, 38), (Operation::Equal, 39), (Operation::Greater, 40)] {
        rules.push(rule(named("socket"), ALLOW, when(operation, family, 0)));
    }
    for personality in [0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff] {
        rules.push(rule(named("personality"), ALLOW, when(Operation::Equal, personality, 0)));
    }
    if capabilities & capabilities::bits(["SYS_ADMIN"].into_iter())? == 0 {
        rules.push(rule(named("clone"), ALLOW, when(Operation::MaskedEqual, 0, NEW_NAMESPACES)));
        // Its flags cannot be looked at: programs that are told it does not exist use the other one.
        rules.push(rule(named("clone3"), ERRNO | ENOSYS, Vec::new()));
    }
    Ok(rules)
}

/// A profile in the OCI's format.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    default_action: String,
    default_errno_ret: Option<u32>,
    #[serde(default)]
    syscalls: Vec<Syscalls>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Syscalls {
    #[serde(default)]
    names: Vec<String>,
    /// The older way to name one.
    name: Option<String>,
    action: String,
    errno_ret: Option<u32>,
    args: Option<Vec<Argument>>,
    #[serde(default)]
    includes: Condition,
    #[serde(default)]
    excludes: Condition,
}

#[derive(Deserialize, Default)]
struct Condition {
    #[serde(default)]
    caps: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Argument {
    index: u32,
    value: u64,
    #[serde(default)]
    value_two: u64,
    op: String,
}

/// The program of a profile that somebody wrote.
pub(crate) fn from_json(text: &[u8], capabilities: u64) -> Result<Vec<u64>> {
    let profile: Profile = serde_json::from_slice(text)
        .map_err(|error| Error::InvalidArgument(format!("seccomp profile is malformed: {error}")))?;
    let default = action(&profile.default_action, profile.default_errno_ret)?;
    let has = |names: &[String]| -> Result<bool> {
        Ok(names
            .iter()
            .map(|name| capabilities::bits([name.as_str()].into_iter()))
            .collect::<Result<Vec<_>>>()?
            .iter()
            .any(|bit| capabilities & bit != 0))
    };
    let mut rules = Vec::new();
    for calls in profile.syscalls {
        let included = calls.includes.caps.is_empty() || has(&calls.includes.caps)?;
        if !included || has(&calls.excludes.caps)? {
            continue;
        }
        let tests = calls.args.unwrap_or_default().iter().map(test).collect::<Result<_>>()?;
        let names = calls.names.into_iter().chain(calls.name).collect();
        rules.push(Rule { names, action: action(&calls.action, calls.errno_ret)?, tests });
    }
    Ok(program::compile(&Architecture::here(), default, &rules))
}

fn action(name: &str, errno: Option<u32>) -> Result<u32> {
    let errno = errno.unwrap_or(EPERM) & 0xffff;
    Ok(match name {
        "SCMP_ACT_KILL" | "SCMP_ACT_KILL_THREAD" => 0,
        "SCMP_ACT_KILL_PROCESS" => 0x8000_0000,
        "SCMP_ACT_TRAP" => 0x0003_0000,
        "SCMP_ACT_ERRNO" => ERRNO | errno,
        "SCMP_ACT_TRACE" => 0x7ff0_0000 | errno,
        "SCMP_ACT_LOG" => 0x7ffc_0000,
        "SCMP_ACT_ALLOW" => ALLOW,
        other => return Err(Error::InvalidArgument(format!("seccomp action {other:?} is not supported"))),
    })
}

fn test(argument: &Argument) -> Result<Test> {
    let index = u8::try_from(argument.index).ok().filter(|index| *index < 6);
    let index = index.ok_or_else(|| Error::InvalidArgument("a system call has six arguments".to_owned()))?;
    let (operation, value, mask) = match argument.op.as_str() {
        "SCMP_CMP_EQ" => (Operation::Equal, argument.value, 0),
        "SCMP_CMP_NE" => (Operation::NotEqual, argument.value, 0),
        "SCMP_CMP_LT" => (Operation::Less, argument.value, 0),
        "SCMP_CMP_LE" => (Operation::LessOrEqual, argument.value, 0),
        "SCMP_CMP_GT" => (Operation::Greater, argument.value, 0),
        "SCMP_CMP_GE" => (Operation::GreaterOrEqual, argument.value, 0),
        "SCMP_CMP_MASKED_EQ" => (Operation::MaskedEqual, argument.value_two, argument.value),
        other => return Err(Error::InvalidArgument(format!("seccomp operator {other:?} is not known"))),
    };
    Ok(Test { argument: index, operation, value, mask })
}

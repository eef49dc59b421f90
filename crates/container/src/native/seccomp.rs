//! Seccomp: profiles, and the BPF programs that the kernel runs for them at every system call.
//!
//! A profile is the runtime's default or a file in the OCI's format. The filter covers every architecture whose
//! programs the machine runs; calls of any other architecture kill the process.

mod program;

use serde::Deserialize;
use serde_json::{Value, json};

use super::plan::capabilities;
use crate::{Error, Result};
use program::{Architecture, Operation, Rule, Test};

const ALLOW: u32 = 0x7fff_0000;
const ERRNO: u32 = 0x0005_0000;
const TRACE: u32 = 0x7ff0_0000;
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// The system calls that the default profile allows, with their conditions.
const DEFAULT: &str = include_str!("seccomp/default.rules");

/// Actions by their names in profiles.
const ACTIONS: [(&str, u32); 8] = [
    ("SCMP_ACT_KILL", 0),
    ("SCMP_ACT_KILL_THREAD", 0),
    ("SCMP_ACT_KILL_PROCESS", 0x8000_0000),
    ("SCMP_ACT_TRAP", 0x0003_0000),
    ("SCMP_ACT_ERRNO", ERRNO),
    ("SCMP_ACT_TRACE", TRACE),
    ("SCMP_ACT_LOG", 0x7ffc_0000),
    ("SCMP_ACT_ALLOW", ALLOW),
];

/// Comparison operators by their names in profiles.
const OPERATIONS: [(&str, Operation); 7] = [
    ("SCMP_CMP_EQ", Operation::Equal),
    ("SCMP_CMP_NE", Operation::NotEqual),
    ("SCMP_CMP_LT", Operation::Less),
    ("SCMP_CMP_LE", Operation::LessOrEqual),
    ("SCMP_CMP_GT", Operation::Greater),
    ("SCMP_CMP_GE", Operation::GreaterOrEqual),
    ("SCMP_CMP_MASKED_EQ", Operation::MaskedEqual),
];

/// Flags of namespaces that only administrators create.
const NEW_NAMESPACES: u64 = 0x7e02_0000;

/// A seccomp filter for a container with certain capabilities.
pub(crate) struct Filter {
    default: u32,
    rules: Vec<Rule>,
}

impl Filter {
    /// The filter as a BPF program.
    pub(crate) fn program(&self) -> Vec<u64> {
        program::compile(&Architecture::here(), self.default, &self.rules)
    }

    /// The filter in the OCI's format, for other runtimes.
    pub(crate) fn described(&self) -> Value {
        let mut profile = named_action(self.default, "defaultAction", "defaultErrnoRet");
        let calls = self.rules.iter().map(|rule| {
            let mut calls = named_action(rule.action, "action", "errnoRet");
            calls["names"] = json!(rule.names);
            calls["args"] = rule.tests.iter().map(described_test).collect();
            calls
        });
        profile["syscalls"] = calls.collect();
        profile["architectures"] = match std::env::consts::ARCH {
            "x86_64" => json!(["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"]),
            "aarch64" => json!(["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"]),
            _ => json!([]),
        };
        profile
    }
}

fn named_action(action: u32, name: &str, errno: &str) -> Value {
    let (kind, number) = (action & 0xffff_0000, action & 0xffff);
    let found = ACTIONS
        .into_iter()
        .find(|(_, known)| *known == kind)
        .map_or("SCMP_ACT_KILL_PROCESS", |(name, _)| name);
    match kind {
        ERRNO | TRACE => json!({name: found, errno: number}),
        _ => json!({name: found}),
    }
}

fn described_test(test: &Test) -> Value {
    let op = OPERATIONS.into_iter().find(|(_, known)| *known == test.operation).map_or("", |(name, _)| name);
    match test.operation {
        Operation::MaskedEqual => {
            json!({"index": test.argument, "value": test.mask, "valueTwo": test.value, "op": op})
        }
        _ => json!({"index": test.argument, "value": test.value, "op": op}),
    }
}

/// The default profile, for a container with these capabilities.
pub(crate) fn runtime_default(capabilities: u64) -> Result<Filter> {
    Ok(Filter { default: ERRNO | EPERM, rules: default_rules(capabilities)? })
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
        // Its flags are behind a pointer and cannot be checked: with ENOSYS programs fall back to `clone`.
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
    /// The older form of `names`.
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

/// Parses a profile in the OCI's format.
pub(crate) fn from_json(text: &[u8], capabilities: u64) -> Result<Filter> {
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
    Ok(Filter { default, rules })
}

fn action(name: &str, errno: Option<u32>) -> Result<u32> {
    let errno = errno.unwrap_or(EPERM) & 0xffff;
    let known = ACTIONS.into_iter().find(|(known, _)| *known == name);
    let unknown = || Error::InvalidArgument(format!("seccomp action {name:?} is not supported"));
    let (_, action) = known.ok_or_else(unknown)?;
    Ok(if matches!(action, ERRNO | TRACE) { action | errno } else { action })
}

fn test(argument: &Argument) -> Result<Test> {
    let index = u8::try_from(argument.index).ok().filter(|index| *index < 6);
    let index = index.ok_or_else(|| Error::InvalidArgument("a system call has six arguments".to_owned()))?;
    let known = OPERATIONS.into_iter().find(|(known, _)| *known == argument.op);
    let unknown = || Error::InvalidArgument(format!("unknown seccomp operator {:?}", argument.op));
    let (_, operation) = known.ok_or_else(unknown)?;
    let (value, mask) = match operation {
        Operation::MaskedEqual => (argument.value_two, argument.value),
        _ => (argument.value, 0),
    };
    Ok(Test { argument: index, operation, value, mask })
}

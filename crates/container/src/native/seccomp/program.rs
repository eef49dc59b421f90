//! Rules about system calls, as a program of classic BPF.
//!
//! The program finds a call's number by binary search, so that hundreds of rules cost a handful of comparisons. The
//! first matching rule decides.

use std::collections::BTreeMap;
use std::str::FromStr;

pub(super) struct Rule {
    pub(super) names: Vec<String>,
    pub(super) action: u32,
    /// All tests must hold.
    pub(super) tests: Vec<Test>,
}

/// A condition on an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) argument: u8,
    pub(super) operation: Operation,
    pub(super) value: u64,
    /// For `MaskedEqual`.
    pub(super) mask: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    MaskedEqual,
}

/// A system call ABI.
pub(super) struct Architecture {
    /// The kernel's audit number of the ABI.
    audit: u32,
    number: fn(&str) -> Option<u32>,
}

impl Architecture {
    /// The ABIs of programs that this machine runs.
    pub(super) fn here() -> Vec<Architecture> {
        #[cfg(target_arch = "x86_64")]
        let here = vec![
            Architecture {
                audit: 0xc000_003e,
                number: |name| syscalls::x86_64::Sysno::from_str(name).ok().map(|call| call.id() as u32),
            },
            Architecture {
                audit: 0x4000_0003,
                number: |name| syscalls::x86::Sysno::from_str(name).ok().map(|call| call.id() as u32),
            },
        ];
        #[cfg(target_arch = "aarch64")]
        let here = vec![
            Architecture {
                audit: 0xc000_00b7,
                number: |name| syscalls::aarch64::Sysno::from_str(name).ok().map(|call| call.id() as u32),
            },
            Architecture {
                audit: 0x4000_0028,
                number: |name| syscalls::arm::Sysno::from_str(name).ok().map(|call| call.id() as u32),
            },
        ];
        here
    }
}

/// System calls of the x32 ABI have this bit; they are not supported.
#[cfg(target_arch = "x86_64")]
const LARGEST_NUMBER: u32 = 0x4000_0000;
#[cfg(not(target_arch = "x86_64"))]
const LARGEST_NUMBER: u32 = u32::MAX;

const KILL_PROCESS: u32 = 0x8000_0000;

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_GREATER: u16 = 0x25;
const IF_GREATER_OR_EQUAL: u16 = 0x35;
const RETURN: u16 = 0x06;

const NUMBER: u32 = 0;
const AUDIT: u32 = 4;
const ARGUMENTS: u32 = 16;

fn instruction(code: u16, if_true: u8, if_false: u8, value: u32) -> u64 {
    u64::from(code) | u64::from(if_true) << 16 | u64::from(if_false) << 24 | u64::from(value) << 32
}

fn answer(action: u32) -> u64 {
    instruction(RETURN, 0, 0, action)
}

/// The rules of one system call.
#[derive(Clone, PartialEq, Eq)]
struct Fate(Vec<(Vec<Test>, u32)>);

pub(super) fn compile(architectures: &[Architecture], default: u32, rules: &[Rule]) -> Vec<u64> {
    let mut program = vec![instruction(LOAD, 0, 0, AUDIT)];
    for architecture in architectures {
        let part = part(architecture, default, rules);
        program.push(instruction(IF_EQUAL, 1, 0, architecture.audit));
        program.push(instruction(JUMP, 0, 0, part.len() as u32));
        program.extend(part);
    }
    program.push(answer(KILL_PROCESS));
    program
}

fn part(architecture: &Architecture, default: u32, rules: &[Rule]) -> Vec<u64> {
    let mut fates: BTreeMap<u32, Fate> = BTreeMap::new();
    for rule in rules {
        for number in rule.names.iter().filter_map(|name| (architecture.number)(name)) {
            fates.entry(number).or_insert(Fate(Vec::new())).0.push((rule.tests.clone(), rule.action));
        }
    }
    let mut program = vec![instruction(LOAD, 0, 0, NUMBER)];
    program.extend(search(&ranges(&fates), default));
    program
}

/// The first number of every range of calls with the same rules; a range ends where the next begins.
fn ranges(fates: &BTreeMap<u32, Fate>) -> Vec<(u32, Option<Fate>)> {
    let mut ranges: Vec<(u32, Option<Fate>)> = vec![(0, None)];
    let mut begin = |number: u32, fate: Option<Fate>| match ranges.last_mut() {
        Some(last) if last.1 == fate => {}
        Some(last) if last.0 == number => last.1 = fate,
        _ => ranges.push((number, fate)),
    };
    let mut next = 0;
    for (&number, fate) in fates.range(..LARGEST_NUMBER) {
        if number > next {
            begin(next, None);
        }
        begin(number, Some(fate.clone()));
        next = number + 1;
    }
    begin(next, None);
    ranges
}

fn search(ranges: &[(u32, Option<Fate>)], default: u32) -> Vec<u64> {
    let (low, high) = match ranges {
        [] => return vec![answer(default)],
        [(_, fate)] => return decide(fate.as_ref(), default),
        ranges => ranges.split_at(ranges.len() / 2),
    };
    let (left, right) = (search(low, default), search(high, default));
    let middle = high[0].0;
    let mut program = match u8::try_from(left.len()) {
        Ok(length) => vec![instruction(IF_GREATER_OR_EQUAL, length, 0, middle)],
        Err(_) => {
            vec![instruction(IF_GREATER_OR_EQUAL, 0, 1, middle), instruction(JUMP, 0, 0, left.len() as u32)]
        }
    };
    program.extend(left);
    program.extend(right);
    program
}

fn decide(fate: Option<&Fate>, default: u32) -> Vec<u64> {
    let mut program = Vec::new();
    for (tests, action) in fate.iter().flat_map(|fate| &fate.0) {
        program.extend(rule(tests, *action));
        if tests.is_empty() {
            return program;
        }
    }
    program.push(answer(default));
    program
}

/// The target of a comparison.
#[derive(Clone, Copy)]
enum To {
    Next,
    /// Skips so many instructions.
    Skip(u8),
    /// The rule does not match.
    Fail,
}

fn rule(tests: &[Test], action: u32) -> Vec<u64> {
    let steps: Vec<(u16, To, To, u32)> = tests.iter().flat_map(steps).collect();
    let length = steps.len();
    let place = |at: usize, to: To| match to {
        To::Next => 0,
        To::Skip(count) => count,
        // Past the remaining tests and the action; with six arguments this fits into a byte.
        To::Fail => u8::try_from(length - at).unwrap_or(u8::MAX),
    };
    let tested = steps.iter().enumerate();
    let mut program: Vec<u64> = tested
        .map(|(at, &(code, yes, no, value))| match code {
            LOAD | AND => instruction(code, 0, 0, value),
            _ => instruction(code, place(at, yes), place(at, no), value),
        })
        .collect();
    program.push(answer(action));
    program
}

/// Arguments have 64 bits and are compared in halves.
fn steps(test: &Test) -> Vec<(u16, To, To, u32)> {
    use Operation::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, MaskedEqual, NotEqual};
    use To::{Fail, Next, Skip};
    let halves = |value: u64| ((value >> 32) as u32, value as u32);
    let ((high, low), (high_mask, low_mask)) = (halves(test.value), halves(test.mask));
    let place = ARGUMENTS + 8 * u32::from(test.argument);
    let load_low = (LOAD, Next, Next, place);
    let load_high = (LOAD, Next, Next, place + 4);
    match test.operation {
        Equal => vec![load_high, (IF_EQUAL, Next, Fail, high), load_low, (IF_EQUAL, Next, Fail, low)],
        NotEqual => vec![load_high, (IF_EQUAL, Next, Skip(2), high), load_low, (IF_EQUAL, Fail, Next, low)],
        MaskedEqual => vec![
            load_high,
            (AND, Next, Next, high_mask),
            (IF_EQUAL, Next, Fail, high),
            load_low,
            (AND, Next, Next, low_mask),
            (IF_EQUAL, Next, Fail, low),
        ],
        Greater | GreaterOrEqual => {
            let last = if test.operation == Greater { IF_GREATER } else { IF_GREATER_OR_EQUAL };
            vec![
                load_high,
                (IF_GREATER, Skip(3), Next, high),
                (IF_EQUAL, Next, Fail, high),
                load_low,
                (last, Next, Fail, low),
            ]
        }
        Less | LessOrEqual => {
            let last = if test.operation == Less { IF_GREATER_OR_EQUAL } else { IF_GREATER };
            vec![
                load_high,
                (IF_GREATER, Fail, Next, high),
                (IF_EQUAL, Next, Skip(2), high),
                load_low,
                (last, Fail, Next, low),
            ]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOW: u32 = 0x7fff_0000;
    const DENY: u32 = 0x0005_0001;

    /// Runs a program as the kernel would.
    fn run(program: &[u64], audit: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let mut data = Vec::new();
        data.extend(number.to_le_bytes());
        data.extend(audit.to_le_bytes());
        data.extend([0; 8]);
        data.extend(arguments.iter().flat_map(|argument| argument.to_le_bytes()));
        let (mut at, mut register) = (0, 0u32);
        loop {
            let (code, value) = (program[at] as u16, (program[at] >> 32) as u32);
            let (yes, no) = ((program[at] >> 16) as u8, (program[at] >> 24) as u8);
            at += 1;
            let test = match code {
                LOAD => {
                    let place = value as usize;
                    register = u32::from_le_bytes(data[place..place + 4].try_into().unwrap());
                    continue;
                }
                AND => {
                    register &= value;
                    continue;
                }
                JUMP => {
                    at += value as usize;
                    continue;
                }
                RETURN => return value,
                IF_EQUAL => register == value,
                IF_GREATER => register > value,
                IF_GREATER_OR_EQUAL => register >= value,
                other => panic!("unknown instruction {other:#x}"),
            };
            at += usize::from(if test { yes } else { no });
        }
    }

    fn call(program: &[u64], name: &str, argument: u64) -> u32 {
        let native = &Architecture::here()[0];
        run(program, native.audit, (native.number)(name).unwrap(), [argument, 0, 0, 0, 0, 0])
    }

    #[track_caller]
    fn check(operation: Operation, value: u64, mask: u64, fits: &[u64], does_not: &[u64]) {
        let tests = vec![Test { argument: 0, operation, value, mask }];
        let rule = Rule { names: vec!["read".to_owned()], action: ALLOW, tests };
        let program = compile(&Architecture::here(), DENY, &[rule]);
        for argument in fits {
            assert_eq!(call(&program, "read", *argument), ALLOW, "{operation:?} {value} {argument:#x}");
        }
        for argument in does_not {
            assert_eq!(call(&program, "read", *argument), DENY, "{operation:?} {value} {argument:#x}");
        }
        assert_eq!(call(&program, "write", 0), DENY);
    }

    #[test]
    fn arguments_are_compared_in_full() {
        let big = 5 << 32;
        check(Operation::Equal, big | 7, 0, &[big | 7], &[7, big, big | 8]);
        check(Operation::NotEqual, big | 7, 0, &[7, big, 0], &[big | 7]);
        check(Operation::Less, big | 7, 0, &[7, big, 0], &[big | 7, big | 8, 6 << 32]);
        check(Operation::LessOrEqual, big | 7, 0, &[8, big, big | 7], &[big | 8, 6 << 32]);
        check(Operation::Greater, big | 7, 0, &[big | 8, 6 << 32], &[big | 7, 9, 0]);
        check(Operation::GreaterOrEqual, big | 7, 0, &[big | 7, 6 << 32], &[big | 6, 9]);
        check(Operation::MaskedEqual, 2, 3, &[2, 6, big | 2], &[1, 3, 0]);
    }

    #[test]
    fn the_default_profile_knows_its_calls() {
        let program = super::super::runtime_default(0xa804_25fb).unwrap().program();
        for (name, argument, expected) in [
            ("read", 0, ALLOW),
            ("openat", 0, ALLOW),
            ("chroot", 0, ALLOW),
            ("mount", 0, DENY),
            ("reboot", 0, DENY),
            ("bpf", 0, DENY),
            ("clone", 0x11, ALLOW),
            ("clone", 0x1000_0000, DENY),
            ("clone3", 0, 0x0005_0026),
            ("socket", 2, ALLOW),
            ("socket", 40, DENY),
            ("socket", 38, DENY),
            ("personality", 0xffff_ffff, ALLOW),
            ("personality", 1, DENY),
        ] {
            assert_eq!(call(&program, name, argument), expected, "{name} {argument:#x}");
        }
        assert_eq!(run(&program, 1, 0, [0; 6]), KILL_PROCESS);
        assert!(program.len() < 4096, "the kernel takes no longer program");
        let admin = super::super::runtime_default(u64::MAX).unwrap().program();
        assert_eq!(call(&admin, "mount", 0), ALLOW);
        assert_eq!(call(&admin, "clone", 0x1000_0000), ALLOW);
    }

    #[test]
    fn profiles_are_read() {
        let text = br#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
            {"names": ["mkdir", "mkdirat", "unheard_of"], "action": "SCMP_ACT_ERRNO", "errnoRet": 30},
            {"names": ["chmod"], "action": "SCMP_ACT_LOG", "args":
                [{"index": 1, "value": 4095, "valueTwo": 2048, "op": "SCMP_CMP_MASKED_EQ"}]}]}"#;
        let program = super::super::from_json(text, 0).unwrap().program();
        assert_eq!(call(&program, "mkdirat", 0), 0x0005_001e);
        assert_eq!(call(&program, "read", 0), ALLOW);
        assert!(super::super::from_json(br#"{"defaultAction": "SCMP_ACT_NOTIFY"}"#, 0).is_err());
    }

    #[test]
    fn profiles_are_described_as_they_were_parsed() {
        let text = r#"{"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1, "syscalls": [
            {"names": ["read"], "action": "SCMP_ACT_ALLOW", "args": []},
            {"names": ["chmod"], "action": "SCMP_ACT_LOG", "args":
                [{"index": 1, "value": 4095, "valueTwo": 2048, "op": "SCMP_CMP_MASKED_EQ"}]},
            {"names": ["mkdir"], "action": "SCMP_ACT_ERRNO", "errnoRet": 30, "args":
                [{"index": 0, "value": 7, "op": "SCMP_CMP_GT"}]}]}"#;
        let spec = super::super::from_json(text.as_bytes(), 0).unwrap().described();
        let read: serde_json::Value = serde_json::from_str(text).unwrap();
        for (member, expected) in read.as_object().unwrap() {
            assert_eq!(&spec[member], expected);
        }
    }
}

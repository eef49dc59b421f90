//! Containers that another OCI runtime starts, because the pod's RuntimeClass names one: runc, crun, or any other by its path.
//!
//! A container is planned as always; here the plan is put into the words of the OCI, purely. The pod's supervisor has the
//! runtime start it and takes over from there: it is the container's parent, keeps its log and sees its end, and everything
//! that is asked of a running container goes the same way as ever.
//!
//! *Not for runtimes whose containers are no processes of this machine:* commands are run in containers by entering their
//! namespaces. Mounts that a container makes in a bidirectional volume are not seen on the node; a terminal is a container's
//! input and output, but signals nobody; and without its supervisor a container lives until its sandbox is stopped.

use corten_sys::wire::{Container, Device, Mount, Processes};
use serde_json::{Value, json};

use super::plan::capabilities;
use super::plan::devices::Rule;
use super::plan::flag;

/// What a plan does not say because a supervisor knows it.
pub(super) struct Surroundings<'a> {
    /// The pod's supervisor, whose namespaces are the pod's.
    pub(super) supervisor: u32,
    /// A process in the process namespace that the container is to share.
    pub(super) processes: Option<u32>,
    pub(super) cgroup: &'a str,
    /// The devices that it may use; any if not said.
    pub(super) devices: Option<&'a [Rule]>,
    pub(super) seccomp: Option<Value>,
    /// Where the pod's shared memory is.
    pub(super) shared_memory: &'a str,
}

/// A container's `config.json`.
pub(super) fn spec(plan: &Container, around: &Surroundings<'_>) -> Value {
    let namespace = |kind: &str, file: &str| json!({"type": kind, "path": format!("/proc/{}/ns/{file}", around.supervisor)});
    let mut namespaces = vec![
        json!({"type": "mount"}),
        namespace("network", "net"),
        namespace("ipc", "ipc"),
        namespace("uts", "uts"),
    ];
    match (&plan.processes, around.processes) {
        (Processes::Own, _) => namespaces.push(json!({"type": "pid"})),
        (_, Some(pid)) => namespaces.push(json!({"type": "pid", "path": format!("/proc/{pid}/ns/pid")})),
        (_, None) => {}
    }
    if plan.own_cgroup_namespace {
        namespaces.push(json!({"type": "cgroup"}));
    }
    let mut linux = json!({
        "namespaces": namespaces,
        "cgroupsPath": around.cgroup,
        "resources": {"devices": allowed(around.devices)},
        "maskedPaths": plan.masked,
        "readonlyPaths": plan.read_only_paths,
        "devices": plan.devices.iter().map(device).collect::<Vec<_>>(),
    });
    if let Some(seccomp) = &around.seccomp {
        linux["seccomp"] = seccomp.clone();
    }
    json!({
        "ociVersion": "1.0.2",
        "root": {"path": plan.root, "readonly": plan.read_only},
        "process": process(plan),
        "mounts": plan.mounts.iter().map(|one| mount(one, around.shared_memory)).collect::<Vec<_>>(),
        "linux": linux,
    })
}

fn process(plan: &Container) -> Value {
    let process = &plan.process;
    let names = |set: u64| capabilities::names(set).map(|name| format!("CAP_{name}")).collect::<Vec<_>>();
    let mut told = json!({
        // It is connected to a terminal already, if it has one.
        "terminal": false,
        "user": {
            "uid": process.uid, "gid": process.gid, "additionalGids": process.groups, "umask": process.umask,
        },
        "args": process.args,
        "env": process.env,
        "cwd": process.cwd,
        "capabilities": {
            "bounding": names(process.bounding),
            "effective": names(process.effective),
            "permitted": names(process.effective),
            "inheritable": names(process.inheritable),
            "ambient": names(process.ambient),
        },
        "noNewPrivileges": process.no_new_privileges,
    });
    if process.oom_score_adj >= 0 {
        // Not every node lets anybody have less.
        told["oomScoreAdj"] = json!(process.oom_score_adj);
    }
    if !process.apparmor.is_empty() {
        told["apparmorProfile"] = json!(process.apparmor);
    }
    told
}

fn mount(mount: &Mount, shared_memory: &str) -> Value {
    let is_bind = mount.kind.is_empty();
    let mut options: Vec<&str> = Vec::new();
    if is_bind {
        options.push("rbind");
    }
    for (bit, option) in [
        (flag::RDONLY, "ro"),
        (flag::NOSUID, "nosuid"),
        (flag::NODEV, "nodev"),
        (flag::NOEXEC, "noexec"),
        (flag::STRICTATIME, "strictatime"),
    ] {
        if mount.flags & bit != 0 {
            options.push(option);
        }
    }
    if mount.recursive_read_only {
        options.push("rro");
    }
    for (bit, option) in [(flag::PRIVATE, "rprivate"), (flag::SLAVE, "rslave"), (flag::SHARED, "rshared")] {
        if mount.propagation & bit != 0 {
            options.push(option);
        }
    }
    options.extend(mount.options.split(',').filter(|option| !option.is_empty()));
    let source = if mount.source == "shm:" { shared_memory } else { &mount.source };
    let kind = if is_bind { "bind" } else { &mount.kind };
    json!({"destination": mount.target, "source": source, "type": kind, "options": options})
}

fn device(device: &Device) -> Value {
    const KIND: u32 = 0o170_000;
    const BLOCK: u32 = 0o060_000;
    json!({
        "path": device.path,
        "type": if device.mode & KIND == BLOCK { "b" } else { "c" },
        "major": device.major,
        "minor": device.minor,
        "fileMode": device.mode & 0o7777,
        "uid": device.uid,
        "gid": device.gid,
    })
}

fn allowed(rules: Option<&[Rule]>) -> Vec<Value> {
    let Some(rules) = rules else { return vec![json!({"allow": true, "access": "rwm"})] };
    let mut all = vec![json!({"allow": false, "access": "rwm"})];
    all.extend(rules.iter().map(|rule| {
        let mut told = json!({"allow": true, "type": rule.kind.to_string(), "access": rule.access});
        for (name, number) in [("major", rule.major), ("minor", rule.minor)] {
            if let Some(number) = number {
                told[name] = json!(number);
            }
        }
        told
    }));
    all
}

#[cfg(test)]
mod tests {
    use corten_sys::wire::Process;

    use super::*;

    fn around() -> Surroundings<'static> {
        Surroundings {
            supervisor: 7,
            processes: Some(8),
            cgroup: "/kubepods/pod1/c",
            devices: None,
            seccomp: None,
            shared_memory: "/run/shm",
        }
    }

    #[test]
    fn a_plan_is_told_in_the_words_of_the_oci() {
        let bound = Mount {
            source: "/data".to_owned(),
            target: "/d".to_owned(),
            flags: flag::RDONLY,
            propagation: flag::SLAVE | flag::REC,
            ..Mount::default()
        };
        let memory = Mount { source: "shm:".to_owned(), target: "/dev/shm".to_owned(), ..Mount::default() };
        let own = Mount {
            source: "tmpfs".to_owned(),
            target: "/dev".to_owned(),
            kind: "tmpfs".to_owned(),
            flags: flag::NOSUID,
            options: "mode=755".to_owned(),
            ..Mount::default()
        };
        let plan = Container {
            root: "/c/root".to_owned(),
            read_only: true,
            mounts: vec![bound, memory, own],
            process: Process {
                args: vec!["run".to_owned()],
                uid: 5,
                effective: 0b10_0001,
                oom_score_adj: -997,
                ..Process::default()
            },
            ..Container::default()
        };
        let told = spec(&plan, &around());
        assert_eq!(told["root"], json!({"path": "/c/root", "readonly": true}));
        let mounts = json!([
            {"destination": "/d", "source": "/data", "type": "bind", "options": ["rbind", "ro", "rslave"]},
            {"destination": "/dev/shm", "source": "/run/shm", "type": "bind", "options": ["rbind"]},
            {"destination": "/dev", "source": "tmpfs", "type": "tmpfs", "options": ["nosuid", "mode=755"]},
        ]);
        assert_eq!(told["mounts"], mounts);
        assert_eq!(told["process"]["user"]["uid"], 5);
        assert_eq!(told["process"]["capabilities"]["permitted"], json!(["CAP_CHOWN", "CAP_KILL"]));
        assert_eq!(told["process"].get("oomScoreAdj"), None);
    }

    #[test]
    fn whose_processes_a_container_sees() {
        let pid = |processes: Processes, of: Option<u32>| {
            let plan = Container { processes, ..Container::default() };
            let told = spec(&plan, &Surroundings { processes: of, ..around() });
            let namespaces = told["linux"]["namespaces"].as_array().cloned().unwrap();
            namespaces.into_iter().find(|namespace| namespace["type"] == "pid")
        };
        assert_eq!(pid(Processes::Own, Some(8)), Some(json!({"type": "pid"})));
        assert_eq!(pid(Processes::Pod, Some(8)), Some(json!({"type": "pid", "path": "/proc/8/ns/pid"})));
        assert_eq!(pid(Processes::Node, None), None);
    }

    #[test]
    fn devices_are_denied_unless_allowed() {
        let rule = Rule { kind: 'c', major: Some(1), minor: None, access: "rw".to_owned() };
        let told = allowed(Some(&[rule]));
        let expected = json!([
            {"allow": false, "access": "rwm"}, {"allow": true, "type": "c", "access": "rw", "major": 1},
        ]);
        assert_eq!(Value::from(told), expected);
        assert_eq!(Value::from(allowed(None)), json!([{"allow": true, "access": "rwm"}]));
    }
}

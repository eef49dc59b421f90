//! Containers that another OCI runtime starts, because the pod's RuntimeClass names one: runc, crun, or any other by its path.
//!
//! A container is planned as always; here the plan is converted to the OCI's format, by pure functions. The pod's
//! supervisor has the runtime start the container and takes over from there: it is the container's parent, writes its
//! log and records its exit, and requests for a running container are handled as for any other.
//!
//! *Not for runtimes whose containers are not processes of this machine:* commands are run in containers by entering
//! their namespaces. Mounts of a container in a bidirectional volume do not propagate to the node; a terminal is a
//! container's input and output, but sends no signals; and a container whose supervisor has died runs until its sandbox
//! is stopped.

use corten_sys::wire::{Container, Device, Mount, Processes};
use serde_json::{Value, json};

use super::plan::capabilities;
use super::plan::devices::Rule;
use super::plan::flag;

/// Values that are not in a plan because the supervisor provides them.
pub(super) struct Surroundings<'a> {
    /// The pod's supervisor, whose namespaces are the pod's.
    pub(super) supervisor: u32,
    /// A process in the process namespace that the container shares.
    pub(super) processes: Option<u32>,
    pub(super) cgroup: &'a str,
    /// The devices that it may use; all if `None`.
    pub(super) devices: Option<&'a [Rule]>,
    pub(super) seccomp: Option<Value>,
    /// The path of the pod's shared memory.
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
    let mut spec = json!({
        // It is already connected to a terminal, if it has one.
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
        // Not every node allows a lower value.
        spec["oomScoreAdj"] = json!(process.oom_score_adj);
    }
    if !process.apparmor.is_empty() {
        spec["apparmorProfile"] = json!(process.apparmor);
    }
    spec
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
        let mut spec = json!({"allow": true, "type": rule.kind.to_string(), "access": rule.access});
        for (name, number) in [("major", rule.major), ("minor", rule.minor)] {
            if let Some(number) = number {
                spec[name] = json!(number);
            }
        }
        spec
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
    fn a_plan_becomes_an_oci_spec() {
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
        let spec = spec(&plan, &around());
        assert_eq!(spec["root"], json!({"path": "/c/root", "readonly": true}));
        let mounts = json!([
            {"destination": "/d", "source": "/data", "type": "bind", "options": ["rbind", "ro", "rslave"]},
            {"destination": "/dev/shm", "source": "/run/shm", "type": "bind", "options": ["rbind"]},
            {"destination": "/dev", "source": "tmpfs", "type": "tmpfs", "options": ["nosuid", "mode=755"]},
        ]);
        assert_eq!(spec["mounts"], mounts);
        assert_eq!(spec["process"]["user"]["uid"], 5);
        assert_eq!(spec["process"]["capabilities"]["permitted"], json!(["CAP_CHOWN", "CAP_KILL"]));
        assert_eq!(spec["process"].get("oomScoreAdj"), None);
    }

    #[test]
    fn process_namespaces_of_containers() {
        let pid = |processes: Processes, of: Option<u32>| {
            let plan = Container { processes, ..Container::default() };
            let spec = spec(&plan, &Surroundings { processes: of, ..around() });
            let namespaces = spec["linux"]["namespaces"].as_array().cloned().unwrap();
            namespaces.into_iter().find(|namespace| namespace["type"] == "pid")
        };
        assert_eq!(pid(Processes::Own, Some(8)), Some(json!({"type": "pid"})));
        assert_eq!(pid(Processes::Pod, Some(8)), Some(json!({"type": "pid", "path": "/proc/8/ns/pid"})));
        assert_eq!(pid(Processes::Node, None), None);
    }

    #[test]
    fn devices_are_denied_unless_allowed() {
        let rule = Rule { kind: 'c', major: Some(1), minor: None, access: "rw".to_owned() };
        let spec = allowed(Some(&[rule]));
        let expected = json!([
            {"allow": false, "access": "rwm"}, {"allow": true, "type": "c", "access": "rw", "major": 1},
        ]);
        assert_eq!(Value::from(spec), expected);
        assert_eq!(Value::from(allowed(None)), json!([{"allow": true, "access": "rwm"}]));
    }
}

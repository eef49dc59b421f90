//! Tables of file texts as kernels write them.

use std::collections::HashMap;

use super::*;
use crate::PsiData;

struct Table {
    unified: bool,
    files: HashMap<&'static str, &'static str>,
}

impl Files for Table {
    fn is_unified(&self) -> bool {
        self.unified
    }

    fn text(&self, _controller: &str, file: &str) -> Option<String> {
        self.files.get(file).map(|text| (*text).to_owned())
    }
}

fn usage(unified: bool, files: &[(&'static str, &'static str)]) -> Usage {
    read(&Table { unified, files: files.iter().copied().collect() })
}

#[test]
fn a_cgroup_of_version_2() {
    let found = usage(
        true,
        &[
            (
                "cpu.stat",
                "usage_usec 2500\nuser_usec 2000\nsystem_usec 500\nnr_periods 7\nnr_throttled 2\nthrottled_usec 30\n",
            ),
            ("cpu.max", "50000 100000\n"),
            ("cpu.weight", "100\n"),
            ("memory.current", "1000\n"),
            ("memory.peak", "1500\n"),
            ("memory.max", "4096\n"),
            ("memory.swap.current", "5\n"),
            ("memory.swap.max", "max\n"),
            (
                "memory.stat",
                "anon 300\nfile 600\nkernel 100\nfile_mapped 50\ninactive_file 400\nactive_file 200\npgfault 12\npgmajfault 3\n",
            ),
            ("memory.events", "low 0\nhigh 0\nmax 4\noom 1\noom_kill 1\n"),
            ("pids.current", "9\n"),
            ("pids.max", "max\n"),
            ("io.stat", "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n259:1 \n"),
            (
                "memory.pressure",
                "some avg10=1.50 avg60=0.25 avg300=0.00 total=70\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
            ),
        ],
    );
    let cpu = Cpu {
        total: 2_500_000,
        user: Some(2_000_000),
        system: Some(500_000),
        periods: Some(7),
        throttled_periods: Some(2),
        throttled: Some(30_000),
        shares: Some(2 + 99 * 262_142 / 9999),
        quota: Some(50_000),
        period: Some(100_000),
    };
    assert_eq!(found.cpu, Some(cpu));
    let memory = found.memory.clone().unwrap();
    assert_eq!((memory.usage, memory.working_set(), memory.limit), (1000, 600, Some(4096)));
    assert_eq!((memory.rss, memory.cache, memory.mapped_file), (Some(300), Some(600), Some(50)));
    assert_eq!((memory.swap, memory.swap_limit, memory.kernel), (Some(5), None, Some(100)));
    assert_eq!((memory.failures, memory.oom_kills, memory.max_usage), (Some(4), Some(1), Some(1500)));
    assert_eq!((memory.page_faults, memory.major_page_faults), (Some(12), Some(3)));
    assert_eq!((found.processes, found.most_processes), (Some(9), None));
    let first = Io { device: "8:0".into(), read_bytes: 1, written_bytes: 2, reads: 3, writes: 4 };
    assert_eq!(found.io, [first, Io { device: "259:1".into(), ..Io::default() }]);
    let some = PsiData { total: 70_000, avg10: 1.5, avg60: 0.25, avg300: 0.0 };
    assert_eq!(found.memory_pressure.as_ref().map(|psi| &psi.some), Some(&some));
    assert_eq!(found.cpu_pressure, None);
    let spec = found.cri_memory(Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!((spec.available_bytes, spec.working_set_bytes), (Some(3496), Some(600)));
}

#[test]
fn a_cgroup_of_version_1() {
    let found = usage(
        false,
        &[
            ("cpuacct.usage", "123456\n"),
            ("cpuacct.usage_user", "100000\n"),
            ("cpuacct.usage_sys", "23456\n"),
            ("cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_time 77\n"),
            ("cpu.shares", "102\n"),
            ("cpu.cfs_quota_us", "-1\n"),
            ("cpu.cfs_period_us", "100000\n"),
            ("memory.usage_in_bytes", "500\n"),
            ("memory.max_usage_in_bytes", "900\n"),
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory.failcnt", "0\n"),
            (
                "memory.stat",
                "cache 1\nrss 2\ninactive_file 3\ntotal_cache 10\ntotal_rss 20\ntotal_inactive_file 30\ntotal_pgfault 4\n",
            ),
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
            (
                "blkio.throttle.io_service_bytes_recursive",
                "8:0 Read 10\n8:0 Write 20\n8:0 Total 30\nTotal 30\n",
            ),
            ("blkio.throttle.io_serviced_recursive", "8:0 Read 1\n8:0 Write 2\n8:0 Total 3\nTotal 3\n"),
            ("cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"),
        ],
    );
    let cpu = found.cpu.clone().unwrap();
    assert_eq!((cpu.total, cpu.user, cpu.throttled), (123_456, Some(100_000), Some(77)));
    assert_eq!((cpu.shares, cpu.quota, cpu.period), (Some(102), None, Some(100_000)));
    let memory = found.memory.clone().unwrap();
    assert_eq!(
        (memory.limit, memory.rss, memory.cache, memory.working_set()),
        (None, Some(20), Some(10), 470)
    );
    assert_eq!((memory.oom_kills, memory.page_faults, memory.major_page_faults), (Some(2), Some(4), None));
    assert_eq!(
        found.io,
        [Io { device: "8:0".into(), read_bytes: 10, written_bytes: 20, reads: 1, writes: 2 }]
    );
    assert_eq!((found.processes, found.cpu_pressure.clone()), (None, None));
    assert_eq!(found.cri_memory(Timestamp::UNIX_EPOCH).unwrap().available_bytes, None);
}

#[test]
fn missing_values_are_unknown() {
    assert_eq!(usage(true, &[]), Usage::default());
    assert_eq!(
        usage(false, &[("cpu.stat", "nr_periods 1\n"), ("memory.stat", "cache 1\n")]),
        Usage::default()
    );
    assert_eq!(usage(true, &[("cpu.stat", "usage_usec x\n"), ("memory.current", "1\n")]), Usage::default());
}

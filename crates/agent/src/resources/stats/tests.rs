use std::fs;

use super::node_counters::{busy_ticks, working_set};
use super::*;
use crate::resources::cgroups::Counters;

fn counters(cpu_milliseconds: u64, memory_bytes: u64) -> Counters {
    Counters {
        cpu_nanoseconds: cpu_milliseconds * 1_000_000,
        memory_bytes,
    }
}

fn sample(at_seconds: u64, containers: &[(&str, Counters)]) -> Sample {
    let containers = containers
        .iter()
        .map(|(name, counters)| ((*name).to_owned(), *counters));
    Sample {
        at: Duration::from_secs(at_seconds),
        timestamp: Timestamp::UNIX_EPOCH,
        node: Some(counters(1000 * at_seconds, 7)),
        pods: [("u1".to_owned(), containers.collect())].into(),
    }
}

fn record() -> Record {
    Record {
        namespace: "shop".into(),
        name: "web".into(),
        uid: "u1".into(),
        ..Record::default()
    }
}

#[test]
fn usage_is_the_difference_of_two_samples() {
    let earlier = sample(10, &[("a", counters(100, 1)), ("restarted", counters(500, 1))]);
    let later = sample(
        20,
        &[
            ("a", counters(2600, 4096)),
            ("restarted", counters(5, 1)),
            ("new", counters(1, 1)),
        ],
    );
    let report = report(&earlier, &later, &[record()]);
    assert_eq!(report.window_milliseconds, 10_000);
    assert_eq!(report.node.map(|usage| usage.cpu_nanocores), Some(1_000_000_000));
    let containers = &report.pods[0].containers;
    assert_eq!(containers.len(), 1);
    assert_eq!(containers[0].name, "a");
    assert_eq!(containers[0].usage.cpu_nanocores, 250_000_000);
    assert_eq!(containers[0].usage.memory_bytes, 4096);
}

#[test]
fn samples_of_one_moment_give_no_usage() {
    let both = sample(10, &[("a", counters(100, 1))]);
    let report = report(&both, &both, &[record()]);
    assert!(report.pods.is_empty() && report.node.is_none());
}

#[test]
fn node_counters_exclude_idle_time_and_inactive_files() {
    let stat = "cpu  10 1 5 100 20 2 3 4 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
    assert_eq!(busy_ticks(stat), Some(25));
    assert_eq!(busy_ticks("intr 5\n"), None);
    let meminfo = "MemTotal:  1000 kB\nMemFree:  300 kB\nInactive(file):  200 kB\n";
    assert_eq!(working_set(meminfo), Some(500 * 1024));
}

#[test]
fn counters_come_from_groups_of_both_versions() {
    let root = tempfile::tempdir().expect("directory");
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        fs::write(path, text).expect("file");
    };
    write("v2/u1/a/cpu.stat", "usage_usec 5\nuser_usec 4\n");
    write("v2/u1/a/memory.current", "9000\n");
    write("v2/u1/a/memory.stat", "anon 1\ninactive_file 1000\n");
    let v2 = Cgroups::V2 {
        pods: root.path().join("v2"),
    };
    let expected = Counters {
        cpu_nanoseconds: 5000,
        memory_bytes: 8000,
    };
    assert_eq!(v2.usage("u1"), [("a".to_owned(), expected)]);
    assert!(v2.usage("u2").is_empty());
    write("acct/u1/a/cpuacct.usage", "5000\n");
    write("mem/u1/a/memory.usage_in_bytes", "9000\n");
    write(
        "mem/u1/a/memory.stat",
        "inactive_file 1\ntotal_inactive_file 1000\n",
    );
    let v1 = |cpuacct| Cgroups::V1 {
        memory: root.path().join("mem"),
        cpu: root.path().join("cpu"),
        cpuacct,
        pids: root.path().join("pids"),
    };
    assert_eq!(
        v1(Some(root.path().join("acct"))).usage("u1"),
        [("a".to_owned(), expected)]
    );
    assert!(v1(None).usage("u1").is_empty());
}

#[test]
fn report_of_the_node_needs_two_readings() {
    let root = tempfile::tempdir().expect("directory");
    let state = StateDirectory::open(root.path()).expect("state directory");
    let reader = Reader {
        state,
        cgroups: None,
        begin: Instant::now(),
    };
    let stats = Stats::default();
    assert!(stats.report().is_none());
    let (earlier, _) = reader.read();
    std::thread::sleep(Duration::from_millis(20));
    let (later, records) = reader.read();
    stats.publish(&earlier, &later, &records);
    let json = stats.report().expect("a report");
    let report: api::resource_metrics::Report = serde_json::from_slice(&json).expect("JSON");
    assert!(report.node.expect("the node").memory_bytes > 0);
}

use clap::Parser;
use explain::traffic::{Events, Names, NodeFlows};

use super::*;

#[derive(Debug, Parser)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

fn flags(arguments: &[&str]) -> Flags {
    let line = ["top", "services"].iter().chain(arguments);
    match CommandLine::try_parse_from(line).expect("flags").command {
        Command::Services(flags) => flags,
        other => panic!("{other:?}"),
    }
}

#[test]
fn selection_follows_flags() {
    let selection = |arguments: &[&str]| flags(arguments).selection();
    let service = |namespace, name| Ok::<_, UsageError>(Selection::Service(ObjectKey::new(namespace, name)));
    assert_eq!(selection(&[]), Ok(Selection::Namespace("default".to_owned())));
    assert_eq!(
        selection(&["-n", "shop"]),
        Ok(Selection::Namespace("shop".to_owned()))
    );
    assert_eq!(selection(&["-A"]), Ok(Selection::All));
    assert_eq!(selection(&["web"]), service("default", "web"));
    assert_eq!(selection(&["web", "-n", "shop"]), service("shop", "web"));
    assert_eq!(selection(&["shop/web"]), service("shop", "web"));
    for name in ["a/b/c", "/web", "shop/"] {
        assert!(selection(&[name]).is_err(), "{name}");
    }
    assert!(CommandLine::try_parse_from(["top", "services", "web", "-A"]).is_err());
}

#[test]
fn interval_is_bounded() {
    for (interval, is_valid) in [("99ms", false), ("100ms", true), ("20s", true), ("21s", false)] {
        let found = flags(&["--interval", interval]).traffic.validate();
        assert_eq!(found.is_ok(), is_valid, "{interval}");
    }
}

#[test]
fn json_is_one_line_while_it_is_watched() {
    let traffic = ClusterTraffic::default();
    let text = |watch| {
        Format::Json
            .object(&traffic, watch)
            .expect("JSON")
            .expect("an object")
    };
    assert_eq!(text(true).lines().count(), 1);
    assert!(text(false).lines().count() > 1);
    let value: serde_json::Value = serde_json::from_str(&text(true)).expect("JSON");
    assert_eq!(
        (&value["kind"], &value["apiVersion"]),
        (&"ClusterTraffic".into(), &"traffic.portolan.dev/v1".into())
    );
    assert_eq!(Format::Wide.object(&traffic, false).expect("no JSON"), None);
}

#[test]
fn notes_name_what_is_missing() {
    let report = |counts_bytes, events, mode: &str, truncated: &[&str]| NodeFlows {
        counts_bytes,
        events,
        mode: mode.to_owned(),
        flows_without_bytes: 1,
        truncated: truncated.iter().map(|part| (*part).to_owned()).collect(),
        ..NodeFlows::default()
    };
    let merge = |results| notes(&ClusterTraffic::merge(results, &Names::default()));
    let complete = report(false, Events::Complete, "nftables", &[]);
    let found = merge(vec![
        ("a".to_owned(), Ok(complete)),
        (
            "b".to_owned(),
            Ok(report(true, Events::Lost, "userspace", &["flows", "clients"])),
        ),
        ("c\u{1b}".to_owned(), Err("refused".to_owned())),
    ]);
    let starts = [
        "no report of node c\\u{1b}: refused",
        "bytes are unknown on node a: sysctl -w net.netfilter.nf_conntrack_acct=1",
        "bytes of connections that began before the kernel counted are unknown on node b",
        "some short connections are not counted on node b",
        "endpoints are unknown on node b",
        "node b: more flows than are counted",
        "node b: more rows than a report contains",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (note, start) in found.iter().zip(starts) {
        assert!(note.starts_with(start), "{note}");
    }
    let many = (0..9)
        .map(|number| (format!("node-{number}"), Ok(report(true, Events::Off, "", &[]))))
        .collect();
    let found = merge(many);
    assert!(
        found[1].starts_with("connections shorter than the interval are not counted on all nodes"),
        "{found:#?}"
    );
    let failed = (0..9)
        .map(|number| (format!("node-{number}"), Err("timeout".to_owned())))
        .collect();
    assert_eq!(merge(failed)[5], "no report of 4 further nodes");
}

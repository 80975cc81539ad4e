use explain::trace::live::{Disagreement, Entry, Evidence, MatchedRule, Response};

use super::*;

fn live() -> Live {
    Live {
        mode: Some("nftables".to_owned()),
        evidence: Evidence {
            conntrack: true,
            rules: true,
            translation: true,
        },
        notes: Vec::new(),
        connections: vec![Connection {
            source: "10.244.1.9:40000".parse().expect("an address"),
            destination: "10.96.0.5:80".parse().expect("an address"),
            response: Response::Answered,
            milliseconds: 2,
            at_connect: None,
            entry: Some(Entry {
                endpoint: "10.244.1.2:8080".parse().expect("an address"),
                client_seen: "192.0.2.11".parse().expect("an address"),
            }),
            rules: vec![MatchedRule {
                table: "inet \u{1b}[2J".to_owned(),
                chain: "services".to_owned(),
                verdict: "jump cluster".to_owned(),
                drops: false,
            }],
            disagreements: Vec::new(),
        }],
    }
}

#[test]
fn connection_has_its_endpoint_and_rules() {
    assert_eq!(
        render(&live()),
        "\nSent 1 packet from this host, proxy mode nftables\n  \
         10.244.1.9:40000 -> 10.96.0.5:80: answered after 2 ms; conntrack: endpoint 10.244.1.2:8080, masqueraded as 192.0.2.11\n    \
         inet \\u{1b}[2J services: jump cluster\n  \
         plan and kernel agree\n"
    );
}

#[test]
fn differences_and_notes_are_lines() {
    let mut live = live();
    live.notes.push("rules are not followed".to_owned());
    live.connections[0].disagreements.push(Disagreement {
        plan: "refuses the connection".to_owned(),
        kernel: "answered".to_owned(),
    });
    let text = render(&live);
    assert!(text.contains("\n  note: rules are not followed\n"), "{text}");
    assert!(
        text.contains("\n    plan: refuses the connection, kernel: answered\n"),
        "{text}"
    );
    assert!(!text.contains("agree\n"), "{text}");
}

#[test]
fn decision_of_an_ebpf_program_is_shown() {
    let mut live = live();
    live.connections[0].entry = None;
    live.connections[0].at_connect = Some(AtConnect::Endpoint(
        "10.244.1.2:8080".parse().expect("an address"),
    ));
    assert!(render(&live).contains("answered after 2 ms; eBPF: endpoint 10.244.1.2:8080\n"));
    live.connections[0].at_connect = Some(AtConnect::Refused);
    assert!(render(&live).contains("after 2 ms; eBPF: refused\n"));
}

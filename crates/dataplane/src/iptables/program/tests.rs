use super::*;

#[test]
fn finds_refused_line_in_message() {
    assert_eq!(refused_line("iptables-restore: line 7 failed"), Some(7));
    assert_eq!(
        refused_line(
            "iptables-restore v1.8.9 (legacy): unknown option\nError occurred at line: 12\nTry `-h'"
        ),
        Some(12)
    );
    assert_eq!(
        refused_line("line 3: RULE_APPEND failed (Invalid argument): rule in chain X"),
        Some(3)
    );
    assert_eq!(
        refused_line("Another app is currently holding the xtables lock"),
        None
    );
}

#[test]
fn kubelet_chain_outweighs_number_of_rules() {
    let hint = "*mangle\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n";
    let rules = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -j ACCEPT\nCOMMIT\n";
    assert_eq!(choose(hint, rules), Some(Variant::Nft));
    assert_eq!(choose(rules, hint), Some(Variant::Legacy));
    assert_eq!(choose(rules, ""), Some(Variant::Nft));
    assert_eq!(choose("", rules), Some(Variant::Legacy));
    assert_eq!(choose("", ""), None);
}

use super::*;
use crate::kind::Kind;

fn service(name: &str) -> Option<Object> {
    let tree = json!({"metadata": {"name": name, "namespace": "shop"}});
    Object::read(Kind::Service, tree)
}

#[test]
fn values_cannot_end_their_quotes() {
    let service = service("web").expect("an object");
    assert_eq!(
        merge(&service, &json!({"a": "'; reboot; '"})),
        r#"kubectl -n shop patch service web --type=merge -p '{"a":"'\''; reboot; '\''"}'"#
    );
    assert_eq!(
        set_selector(&service, [("app", "$(reboot)'x")]),
        r"kubectl -n shop set selector service web 'app=$(reboot)'\''x'"
    );
}

#[test]
fn objects_whose_names_a_shell_interprets_are_ignored() {
    for name in ["web; reboot", "$(reboot)", "-f", "a'b", ""] {
        assert!(service(name).is_none(), "{name:?}");
    }
    assert!(service("web-1.example.com").is_some());
}

#[test]
fn words_are_quoted_if_a_shell_interprets_them() {
    assert_eq!(word("web"), "web");
    assert_eq!(word("a b"), "'a b'");
    assert_eq!(word("-f"), "'-f'");
}

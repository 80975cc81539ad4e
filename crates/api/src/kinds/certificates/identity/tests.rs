use super::*;

#[test]
fn node_parts_have_distinct_users() {
    for part in NodePart::ALL {
        let user = part.user("n1");
        let identity = NodeIdentity::of(&user, &[part.group()]);
        let expected = NodeIdentity {
            node_name: "n1",
            part: Some(part),
        };
        assert_eq!(identity, Some(expected), "{user}");
        assert_ne!(user, part.user("n2"));
    }
    let agent = NodeIdentity::of("system:node:n1", &["system:nodes"]);
    assert_eq!(agent.map(|agent| agent.part), Some(None));
}

#[test]
fn rejects_users_without_the_group_of_the_part() {
    for (user, group) in [
        ("system:node:n1", "system:portolan:edges"),
        ("system:portolan-edge:n1", "system:nodes"),
        ("system:portolan-edge", "system:portolan:edges"),
        ("system:portolan-edge:", "system:portolan:edges"),
        ("ann", "system:nodes"),
    ] {
        assert_eq!(NodeIdentity::of(user, &[group]), None, "{user} of {group}");
    }
}

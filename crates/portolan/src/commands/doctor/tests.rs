use clap::Parser;
use explain::Scope;
use serde_json::json;

use super::report::value;
use super::scope::SubjectKind;
use super::*;

#[derive(Debug, Parser)]
struct CommandLine {
    #[command(flatten)]
    flags: Flags,
}

const OBJECTS: &str = r#"{"apiVersion": "v1", "kind": "List", "items": [
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
     "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1", "namespace": "shop", "labels": {"run": "web"}}}]}"#;

fn source(text: &str) -> Source {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("a writable file");
    Source::from_files(&[file.path().to_owned()]).expect("a source")
}

#[test]
fn json_has_exactly_the_fields_of_the_interface() {
    let findings = examine(&source(OBJECTS).builder.build(), &Scope::All, &Options::default());
    let remedy = "kubectl -n shop set selector service web 'run=web'";
    let message = "The selector app=web matches no Pod in namespace shop. The nearest is Pod web-1, which has run=web instead of app=web";
    let expected = json!({"findings": [{"code": "PTL-0002", "severity": "error",
        "object": {"kind": "Service", "namespace": "shop", "name": "web"},
        "field": "spec.selector", "message": message, "remedy": remedy}]});
    assert_eq!(value(&findings).expect("JSON"), expected);
    assert_eq!(value(&[]).expect("JSON"), json!({"findings": []}));
}

#[test]
fn json_and_yaml_documents_are_read() {
    let yaml = "kind: Service\nmetadata: {name: a}\n---\nkind: Service\nmetadata: {name: b}\n";
    let json = "{\"kind\":\"Service\",\"metadata\":{\"name\":\"a\"}}\n{\"kind\":\"Service\",\"metadata\":{\"name\":\"b\"}}";
    for text in [yaml, json] {
        assert_eq!(source(text).builder.len(), 2, "{text}");
    }
}

#[test]
fn text_names_the_most_likely_cause_first() {
    let world = source(OBJECTS).builder.build();
    let findings = examine(&world, &Scope::All, &Options::default());
    let mut source = source(OBJECTS);
    source.forbidden.push("Node");
    let absent = text::unread_kinds(&source);
    let text = text::render(&text::subject(&world, &Scope::All), &findings, &absent);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "2 objects: 1 error");
    assert_eq!(
        lines[1],
        "Most likely cause: The selector matches no Pod (PTL-0002, Service shop/web)"
    );
    let expected = "Not allowed to read, so nothing is reported that depends on them: Node";
    assert_eq!(lines[2], expected);
    let healthy = text::render(&text::subject(&world, &Scope::All), &[], "");
    assert_eq!(healthy, "2 objects: no findings\n");
}

#[test]
fn many_kinds_that_are_not_served_are_counted() {
    let mut source = source(OBJECTS);
    source.not_served = vec!["A", "B", "C"];
    let expected = "Not served, so nothing is reported that depends on them: A, B, C\n";
    assert_eq!(text::unread_kinds(&source), expected);
    source.not_served.push("D");
    let expected = "4 kinds are not served, so nothing is reported that depends on them\n";
    assert_eq!(text::unread_kinds(&source), expected);
}

#[test]
fn service_names_need_a_name() {
    let scope_of = |name: &str| {
        let line = CommandLine::try_parse_from(["doctor", "service", name]).expect("flags");
        line.flags.scope.parse()
    };
    let service = |namespace: &str, name: &str| Scope::Service {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    assert_eq!(scope_of("shop/web"), Ok(service("shop", "web")));
    assert_eq!(scope_of("web"), Ok(service("default", "web")));
    for name in ["shop/", "/web", "a/b/c"] {
        assert!(scope_of(name).is_err(), "{name}");
    }
}

#[test]
fn kind_and_name_need_each_other() {
    for line in [["doctor", "service"], ["doctor", "shop/web"]] {
        assert!(CommandLine::try_parse_from(line).is_err(), "{line:?}");
    }
    let flags = CommandLine::try_parse_from(["doctor", "svc", "web"])
        .expect("flags")
        .flags;
    assert_eq!(flags.scope.kind, Some(SubjectKind::Service));
}

#[test]
fn flags_are_accepted_before_and_after_the_service() {
    for line in [
        ["doctor", "--from-file", "-", "-o", "json", "service", "shop/web"],
        ["doctor", "service", "shop/web", "--from-file", "-", "-o", "json"],
    ] {
        let flags = CommandLine::try_parse_from(line).expect("flags").flags;
        assert_eq!(flags.from_file, [PathBuf::from("-")]);
        assert_eq!(flags.output, Format::Json);
    }
}

#[test]
fn subcommand_has_flags_of_its_own() {
    let line = [
        "doctor",
        "node",
        "service",
        "shop/web",
        "--probe=false",
        "--from-file",
        "-",
    ];
    let flags = CommandLine::try_parse_from(line).expect("flags").flags;
    assert!(matches!(flags.action, Some(Action::Node(_))) && flags.from_file.is_empty());
    let before = ["doctor", "--from-file", "-", "node"];
    assert!(CommandLine::try_parse_from(before).is_err());
}

use explain::World;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::picture::{ENDPOINTS_MAX, Picture, SERVICES_MAX, Selection, picture};
use super::text;
use crate::view::offline::model_of;

/// Text with markup of all formats, control characters and marks of direction.
const HOSTILE: &str = "<script>alert(1)</script>\"'&\\]]>\n\r\u{1b}[31m\u{202e}--> end; #quot; `click` %%{init}%% </svg><image href=\"http://e\"/>";

fn drawn(objects: Value, selection: &Selection, cluster: &str) -> Picture {
    let mut world = World::builder();
    world.add(objects);
    let (model, _) = model_of(&world.build(), cluster);
    picture(&model, selection, None)
}

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": name},
        "spec": {"type": "NodePort", "clusterIP": "10.96.0.5", "selector": {"app": "web"}, "ports": [{"port": 80, "nodePort": 30080}]}})
}

fn slice(service: &str, endpoints: Vec<Value>) -> Value {
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"namespace": "shop", "name": format!("{service}-1"), "labels": {"kubernetes.io/service-name": service}},
        "ports": [{"name": "", "port": 8080}], "endpoints": endpoints})
}

fn endpoint(address: &str, node: &str, ready: bool) -> Value {
    json!({"addresses": [address], "nodeName": node, "zone": "zone-a", "conditions": {"ready": ready},
        "targetRef": {"kind": "Pod", "name": "web-1"}})
}

fn hostile() -> Picture {
    let mut alias = service("alias");
    alias["spec"]["type"] = "ExternalName".into();
    alias["spec"]["externalName"] = HOSTILE.into();
    let mut pod = endpoint(HOSTILE, HOSTILE, true);
    pod["zone"] = HOSTILE.into();
    pod["targetRef"]["name"] = HOSTILE.into();
    drawn(
        json!([service("web"), alias, slice("web", vec![pod])]),
        &Selection::All,
        HOSTILE,
    )
}

/// Checks that a text is well-formed XML with the elements of drawings and nothing else, and returns the number of
/// elements.
fn elements(svg: &str) -> usize {
    let mut open = Vec::new();
    let mut count = 0;
    for part in svg.split('<').skip(1) {
        let (tag, content) = part.split_once('>').expect("a tag ends");
        assert!(
            !content.contains('>') || open.last() == Some(&"style"),
            "{content}"
        );
        let name = tag
            .trim_start_matches('/')
            .split([' ', '/'])
            .next()
            .expect("a name");
        let known = ["svg", "style", "rect", "text", "title", "g", "path", "line"];
        assert!(known.contains(&name), "unexpected element {name:?}");
        count += 1;
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new());
    count
}

#[test]
fn svg_of_hostile_texts_has_known_elements_only() {
    let svg = super::svg(&hostile());
    assert!(elements(&svg) > 30);
    assert!(!svg.contains("<image"));
    assert!(
        !svg.chars()
            .any(|character| character.is_control() && character != '\n'),
        "{svg}"
    );
    assert!(!svg.contains('\u{202e}') && svg.contains("&lt;script&gt;"));
}

#[test]
fn dot_of_hostile_texts_stays_in_its_quotes() {
    let graph = super::dot(&hostile());
    for line in graph.lines() {
        let unescaped = line.replace("\\\\", "").replace("\\\"", "");
        assert_eq!(unescaped.matches('"').count() % 2, 0, "{line}");
    }
    assert!(
        !graph
            .chars()
            .any(|character| character.is_control() && character != '\n')
    );
    let brackets: i64 = graph
        .lines()
        .map(|line| i64::from(line.ends_with('{')) - i64::from(line.trim() == "}"))
        .sum();
    assert_eq!(brackets, 0, "{graph}");
}

#[test]
fn mermaid_of_hostile_texts_stays_in_its_quotes() {
    let chart = super::mermaid(&hostile());
    for line in chart.lines() {
        let quotes = line.matches('"').count();
        assert!(quotes == 0 || quotes == 2, "{line}");
        let label = line.split('"').nth(1).unwrap_or_default();
        assert!(
            !label.contains(['<', '>', '`', '&', '%', '[', '{', '\\', '\'']),
            "{line}"
        );
    }
    assert!(
        !chart
            .chars()
            .any(|character| character.is_control() && character != '\n')
    );
}

#[test]
fn drawing_is_bounded_and_names_the_rest() {
    let endpoints = (0..200).map(|index| endpoint(&format!("10.244.0.{index}"), "n1", true));
    let mut objects = vec![slice("s0", endpoints.collect())];
    objects.extend((0..500).map(|index| service(&format!("s{index}"))));
    let picture = drawn(json!(objects), &Selection::Namespace("shop".to_owned()), "files");
    assert_eq!(picture.services.len(), SERVICES_MAX);
    assert_eq!(picture.services_omitted, 500 - SERVICES_MAX);
    let one = drawn(
        json!(objects),
        &Selection::Service(api::object::ObjectKey::new("shop", "s0")),
        "files",
    );
    assert_eq!(one.services.len(), 1);
    assert_eq!(one.services[0].endpoints_omitted, 200 - ENDPOINTS_MAX);
    for text in [super::svg(&one), super::dot(&one), super::mermaid(&one)] {
        assert!(text.contains("176 more endpoints"), "{text}");
        assert!(text.len() < 60_000, "{}", text.len());
    }
    let all = super::svg(&picture);
    assert!(
        all.contains("440 more Services") && all.len() < 1_000_000,
        "{}",
        all.len()
    );
}

#[test]
fn services_with_faults_come_first() {
    let healthy = slice("a", vec![endpoint("10.244.0.1", "n1", true)]);
    let faulty = slice("b", vec![endpoint("10.244.0.2", "n1", false)]);
    let picture = drawn(
        json!([service("a"), service("b"), healthy, faulty]),
        &Selection::All,
        "files",
    );
    let names: Vec<&str> = picture
        .services
        .iter()
        .map(|section| section.row.shape.name.as_str())
        .collect();
    assert_eq!(names, ["b", "a"]);
}

#[test]
fn drawing_of_manifests_derives_endpoints_from_pods() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": "web-1", "labels": {"app": "web"}},
        "spec": {"nodeName": "n1"}, "status": {"phase": "Running", "podIP": "10.244.0.7", "conditions": [{"type": "Ready", "status": "True"}]}});
    let picture = drawn(json!([service("web"), pod]), &Selection::All, "files");
    assert_eq!(picture.services[0].places[0].endpoints[0].address, "10.244.0.7");
    let (a, b) = (super::svg(&picture), super::svg(&picture));
    assert_eq!(a, b);
    for text in [a, super::dot(&picture), super::mermaid(&picture)] {
        for part in ["10.244.0.7", "shop", "web", "30080", "1 of 1 ready"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    assert_eq!(picture.time, None::<Timestamp>);
}

#[test]
fn texts_are_shortened_by_characters() {
    assert_eq!(text::shorten("äöü", 3), "äöü");
    assert_eq!(text::shorten("äöüx", 3), "äö…");
    assert_eq!(text::shorten("a\u{0}b\u{200b}", 9), "a\u{fffd}b\u{fffd}");
    assert_eq!(text::shorten("", 0), "");
}

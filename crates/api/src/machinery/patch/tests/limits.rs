//! Small patches with disproportionate effects. Each is rejected, on the stack of a worker thread.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::kinds::kind::{self, Kind};
use crate::machinery::patch::tree::{DEPTH_MAX, WorkingCopy, measure};
use crate::machinery::patch::{PatchError, PatchFormat};

fn apply(object: &Value, body: &[u8], format: PatchFormat, kind: &Kind) -> Result<Value, PatchError> {
    crate::machinery::patch::apply(object, body, format, kind).map(|patched| patched.object)
}

/// Stack size of a server's worker thread.
const STACK_BYTES: usize = 2 << 20;

fn config_map() -> &'static Kind {
    kind::all()
        .iter()
        .find(|kind| kind.kind == "ConfigMap")
        .expect("kind")
}

/// Applies a JSON patch to a small object, and drops the result, on a thread like those of the server. Returns the
/// HTTP status.
fn status_of(body: String) -> u16 {
    let run = move || {
        let object = json!({"metadata": {"name": "a"}, "list": []});
        let patched = apply(&object, body.as_bytes(), PatchFormat::Json, config_map());
        patched.map_or_else(|error| error.status_code(), |_| 200)
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let patched = thread.spawn(run).expect("thread").join();
    patched.expect("patch without panic")
}

fn nest(levels: usize) -> String {
    format!("{}{{}}{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}

/// Returns a patch that repeatedly moves its result to the end of another 110 levels.
fn deep_by_move(rounds: usize) -> String {
    let (levels, mut body) = (110, String::from(r#"[{"op":"add","path":"/x","value":{}}"#));
    let (value, end) = (nest(levels), "/a".repeat(levels));
    for _ in 0..rounds {
        body += &format!(
            r#",{{"op":"add","path":"/n","value":{value}}},{{"op":"move","from":"/x","path":"/n{end}/a"}},{{"op":"move","from":"/n","path":"/x"}}"#
        );
    }
    body + "]"
}

#[test]
fn rejects_moves_that_exceed_the_depth() {
    for rounds in [2, 20, 400] {
        assert_eq!(status_of(deep_by_move(rounds)), 422, "{rounds}");
    }
    assert_eq!(status_of(deep_by_move(1)), 200);
}

#[test]
fn rejects_copies_that_exceed_the_depth() {
    let mut body = String::from(r#"[{"op":"add","path":"/x","value":{}}"#);
    for _ in 0..200 {
        body += r#",{"op":"copy","from":"/x","path":"/y"},{"op":"add","path":"/x","value":{}},{"op":"move","from":"/y","path":"/x/a"}"#;
    }
    assert_eq!(status_of(body + "]"), 422);
}

#[test]
fn rejects_copies_that_exceed_the_size() {
    let doubling = r#"{"op":"copy","from":"/list","path":"/list/-"}"#;
    assert_eq!(status_of(format!("[{}]", [doubling; 40].join(","))), 413);
    let large = format!(
        r#"{{"op":"add","path":"/big","value":"{}"}}"#,
        "x".repeat(1 << 20)
    );
    let copies: Vec<String> = (0..9_000)
        .map(|index| format!(r#"{{"op":"copy","from":"/big","path":"/b{index}"}}"#))
        .collect();
    assert_eq!(status_of(format!("[{large},{}]", copies.join(","))), 422);
}

#[test]
fn rejects_pointers_longer_than_the_maximum_depth() {
    let pointer = "/a".repeat(500_000);
    for body in [
        format!(r#"[{{"op":"add","path":"{pointer}","value":1}}]"#),
        format!(r#"[{{"op":"replace","path":"{pointer}","value":1}}]"#),
        format!(r#"[{{"op":"remove","path":"{pointer}"}}]"#),
        format!(r#"[{{"op":"test","path":"{pointer}","value":1}}]"#),
        format!(r#"[{{"op":"copy","from":"","path":"{pointer}"}}]"#),
        format!(r#"[{{"op":"move","from":"{pointer}","path":"/b"}}]"#),
    ] {
        assert_eq!(status_of(body), 422);
    }
}

#[test]
fn rejects_values_that_exceed_the_depth() {
    for value in [nest(110), nest(200), "[".repeat(100_000)] {
        let body = format!(r#"[{{"op":"test","path":"/metadata","value":{value}}}]"#);
        let expected = if value.len() < 1000 && value.starts_with('{') {
            422
        } else {
            400
        };
        assert_eq!(status_of(body), expected);
    }
}

#[test]
fn rejects_repeated_shifts_of_long_lists() {
    let list = format!("[{}0]", "0,".repeat(1_000_000));
    for operation in [
        r#"{"op":"add","path":"/l/0","value":0}"#,
        r#"{"op":"remove","path":"/l/0"}"#,
        r#"{"op":"move","from":"/l","path":"/m"},{"op":"move","from":"/m","path":"/l"}"#,
    ] {
        let operations = [operation; 4_000].join(",");
        let body = format!(r#"[{{"op":"add","path":"/l","value":{list}}},{operations}]"#);
        assert_eq!(status_of(body), 413, "{operation}");
    }
}

#[test]
fn accepts_patches_within_the_limits() {
    let object = json!({});
    let deep = |levels: usize| {
        let body = format!(r#"[{{"op":"add","path":"/a","value":{}}}]"#, nest(levels));
        apply(&object, body.as_bytes(), PatchFormat::Json, config_map())
    };
    // The patch adds two levels around the value, so the deepest value of a patch is well within the limit.
    let deepest = (0..200).take_while(|levels| deep(*levels).is_ok()).last();
    let patched = deep(deepest.expect("accepted depth")).expect("patched object");
    let text = patched.to_string();
    serde_json::from_str::<Value>(&text).expect("readable object");
    let inserts = vec![json!({"op": "add", "path": "/l/0", "value": 1}); 1_000];
    let mut operations = vec![json!({"op": "add", "path": "/l", "value": vec![0; 1_000]})];
    operations.extend(inserts);
    let body = Value::Array(operations).to_string();
    apply(&object, body.as_bytes(), PatchFormat::Json, config_map()).expect("patched object");
}

#[test]
fn depth_limit_equals_that_of_the_parser() {
    let text = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(serde_json::from_str::<Value>(&text(DEPTH_MAX)).is_ok());
    assert!(serde_json::from_str::<Value>(&text(DEPTH_MAX + 1)).is_err());
}

#[test]
fn drops_deep_trees_without_recursion() {
    let dropping = || {
        let mut tree = Value::Null;
        for level in 0..200_000 {
            tree = match level % 2 {
                0 => Value::Array(vec![tree]),
                _ => Value::Object([("a".to_owned(), tree)].into_iter().collect()),
            };
        }
        let size = measure(&tree, usize::MAX).expect("size without a limit");
        assert_eq!((size.depth, size.values), (200_000, 200_001));
        assert_eq!(WorkingCopy(tree).finish(), None);
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    thread
        .spawn(dropping)
        .expect("thread")
        .join()
        .expect("drop without overflow");
}

/// Generates operations on a few paths that often match.
fn operations() -> impl Strategy<Value = Value> {
    let path = prop::sample::select(vec![
        "",
        "/a",
        "/b",
        "/a/a",
        "/a/b",
        "/b/a",
        "/a/0",
        "/a/-",
        "/a/a/a/a/a/a/a/a",
    ]);
    let value = prop_oneof![
        Just(json!({})),
        Just(json!([])),
        Just(json!({"a": {"a": {"a": {"a": {"a": {"a": {"a": {}}}}}}}})),
        Just(json!(["x", [1, 2]])),
    ];
    let operation = (0..5_u8, path.clone(), path, value).prop_map(|(kind, from, path, value)| match kind {
        0 => json!({"op": "add", "path": path, "value": value}),
        1 => json!({"op": "move", "from": from, "path": path}),
        2 => json!({"op": "copy", "from": from, "path": path}),
        3 => json!({"op": "replace", "path": path, "value": value}),
        _ => json!({"op": "remove", "path": path}),
    });
    // A failing operation ends the patch, so many short patches reach further than a long one.
    prop::collection::vec(operation, 1..6).prop_map(Value::Array)
}

proptest! {
    /// All patched objects can be parsed again.
    #[test]
    fn patched_objects_stay_readable(patches in prop::collection::vec(operations(), 1..60)) {
        let mut object = json!({"a": {}, "b": []});
        for patch in patches {
            match apply(&object, patch.to_string().as_bytes(), PatchFormat::Json, config_map()) {
                Ok(patched) => object = patched,
                Err(PatchError::DoesNotApply(_) | PatchError::TooLarge(_)) => continue,
                Err(other) => prop_assert!(false, "{other}"),
            }
            if object.to_string().len() > 100_000 {
                break;
            }
            prop_assert!(serde_json::from_str::<Value>(&object.to_string()).is_ok());
        }
    }
}

/// Returns an object with `count` fields of the same value.
fn fields(prefix: &str, value: &Value, count: usize) -> Value {
    Value::Object(
        (0..count)
            .map(|index| (format!("{prefix}{index}"), value.clone()))
            .collect(),
    )
}

#[test]
fn strategic_patches_with_many_fields_take_linear_time() {
    let count = 60_000;
    let object = json!({"metadata": {"labels": fields("k", &json!("v"), count)}});
    let strategic = |labels: Value| {
        let body = json!({"metadata": {"labels": labels}}).to_string();
        apply(
            &object,
            body.as_bytes(),
            PatchFormat::StrategicMerge,
            config_map(),
        )
        .expect("patched object")
    };
    // With quadratic time, each of these would move hundreds of gigabytes.
    let emptied = strategic(fields("k", &Value::Null, count));
    assert_eq!(emptied, json!({"metadata": {"labels": {}}}));
    let ordered = strategic(fields("$setElementOrder/k", &json!([]), count));
    assert_eq!(ordered, object);
    let unlisted = strategic(fields("$deleteFromPrimitiveList/k", &json!([]), count));
    assert_eq!(unlisted, object);
}

/// Each item could take the time of the list within the item that it is merged into.
#[test]
fn rejects_many_items_with_the_same_key() {
    let pods = kind::find("", "v1", "pods").expect("the kind Pod");
    let pod = json!({"spec": {"containers": [{"name": "main", "env": [{"name": "a"}]}]}});
    let patch = |count: usize| {
        let item = json!({"name": "main", "env": [{"name": "b"}]});
        json!({"spec": {"containers": vec![item; count]}}).to_string()
    };
    let apply = |count| apply(&pod, patch(count).as_bytes(), PatchFormat::StrategicMerge, pods);
    let patched = apply(100).expect("a patched Pod");
    let variables = patched["spec"]["containers"][0]["env"].as_array();
    assert_eq!(variables.map(Vec::len), Some(2));
    let error = apply(101).expect_err("too many items");
    assert_eq!(error.status_code(), 413);
}

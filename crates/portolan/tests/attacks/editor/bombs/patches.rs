//! Patches of each format that expand or nest objects.

use client::{APPLY_PATCH, MERGE_PATCH, STRATEGIC_PATCH};

use super::{JSON_PATCH, Target, nest};

/// Expects a status code for a JSON patch, and that the server continues.
async fn expect_rejection(patch: String, code: u16) {
    let target = Target::start().await;
    assert_eq!(target.patch(JSON_PATCH, patch).await, code);
    target.expect_survival().await;
}

/// Each round adds 110 levels above the previous result: a patch of 400 KB would create 44,000 levels.
#[tokio::test(flavor = "multi_thread")]
async fn json_patch_with_nested_moves_is_rejected() {
    let (value, end) = (nest(110), "/a".repeat(110));
    let round = format!(
        r#",{{"op":"add","path":"/n","value":{value}}},{{"op":"move","from":"/x","path":"/n{end}/a"}},{{"op":"move","from":"/n","path":"/x"}}"#
    );
    let patch = format!(
        r#"[{{"op":"add","path":"/x","value":{{}}}}{}]"#,
        round.repeat(400)
    );
    expect_rejection(patch, 422).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn json_patch_with_nested_copies_is_rejected() {
    let round = r#",{"op":"copy","from":"/x","path":"/y"},{"op":"add","path":"/x","value":{}},{"op":"move","from":"/y","path":"/x/a"}"#;
    let patch = format!(
        r#"[{{"op":"add","path":"/x","value":{{}}}}{}]"#,
        round.repeat(3_000)
    );
    expect_rejection(patch, 422).await;
}

/// The depth limit also applies to lists.
#[tokio::test(flavor = "multi_thread")]
async fn json_patch_with_nested_lists_is_rejected() {
    let (value, end) = (
        format!("{}{}", "[".repeat(110), "]".repeat(110)),
        "/0".repeat(109),
    );
    let round = format!(
        r#",{{"op":"add","path":"/n","value":{value}}},{{"op":"move","from":"/x","path":"/n{end}/-"}},{{"op":"move","from":"/n","path":"/x"}}"#
    );
    let patch = format!(r#"[{{"op":"add","path":"/x","value":[]}}{}]"#, round.repeat(400));
    expect_rejection(patch, 422).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn json_patch_that_doubles_the_object_is_rejected() {
    let doubled = |from: &str| {
        let copy = format!(r#",{{"op":"copy","from":"{from}","path":"/l/-"}}"#);
        format!(r#"[{{"op":"add","path":"/l","value":[0]}}{}]"#, copy.repeat(60))
    };
    expect_rejection(doubled("/l"), 413).await;
    // As upstream, the whole document is not a source of a copy.
    expect_rejection(doubled(""), 422).await;
}

/// The patch would copy a string of 1 MiB 9,000 times.
#[tokio::test(flavor = "multi_thread")]
async fn json_patch_with_copies_of_a_large_string_is_rejected() {
    let large = "x".repeat(1 << 20);
    let copies: Vec<String> = (0..9_000)
        .map(|at| format!(r#",{{"op":"copy","from":"/data/a","path":"/data/b{at}"}}"#))
        .collect();
    let patch = format!(
        r#"[{{"op":"add","path":"/data/a","value":"{large}"}}{}]"#,
        copies.concat()
    );
    expect_rejection(patch, 422).await;
}

/// Each insertion at the beginning of a list shifts a million items.
#[tokio::test(flavor = "multi_thread")]
async fn json_patch_with_insertions_into_a_long_list_is_rejected() {
    let list = format!("[{}0]", "0,".repeat(1_000_000));
    let add = r#",{"op":"add","path":"/l/0","value":0}"#;
    let patch = format!(
        r#"[{{"op":"add","path":"/l","value":{list}}}{}]"#,
        add.repeat(9_000)
    );
    expect_rejection(patch, 413).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn json_patch_with_long_pointers_is_rejected() {
    let pointer = "/a".repeat(500_000);
    let target = Target::start().await;
    for operation in [
        format!(r#"{{"op":"add","path":"{pointer}","value":1}}"#),
        format!(r#"{{"op":"replace","path":"{pointer}","value":1}}"#),
        format!(r#"{{"op":"remove","path":"{pointer}"}}"#),
        format!(r#"{{"op":"test","path":"{pointer}","value":1}}"#),
        format!(r#"{{"op":"copy","from":"/data","path":"{pointer}"}}"#),
        format!(r#"{{"op":"move","from":"{pointer}","path":"/data"}}"#),
    ] {
        let code = target.patch(JSON_PATCH, format!("[{operation}]")).await;
        assert_eq!(code, 422, "{}", &operation[..30]);
    }
    target.expect_survival().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn json_patch_has_at_most_10000_operations() {
    let operations = [r#"{"op":"remove","path":"/a"}"#; 10_001].join(",");
    expect_rejection(format!("[{operations}]"), 413).await;
}

/// The depth limit of objects applies to the patch of each format.
#[tokio::test(flavor = "multi_thread")]
async fn deep_patches_of_each_format_are_rejected() {
    let target = Target::start().await;
    let deep = |levels| format!(r#"{{"data":{}}}"#, nest(levels));
    for (format, levels) in [
        (MERGE_PATCH, 200),
        (MERGE_PATCH, 400_000),
        (STRATEGIC_PATCH, 200),
        (STRATEGIC_PATCH, 400_000),
        (APPLY_PATCH, 200),
        (APPLY_PATCH, 400_000),
    ] {
        let code = target.patch(format, deep(levels)).await;
        assert_eq!(code, 400, "{format} with {levels} levels");
    }
    for levels in [200, 400_000] {
        let operation = format!(r#"[{{"op":"test","path":"/data","value":{}}}]"#, nest(levels));
        assert_eq!(target.patch(JSON_PATCH, operation).await, 400);
    }
    target.expect_survival().await;
}

/// The result of a merge has the depth limit of a body.
#[tokio::test(flavor = "multi_thread")]
async fn merged_objects_stay_below_the_depth_limit() {
    let target = Target::start().await;
    for format in [MERGE_PATCH, STRATEGIC_PATCH] {
        for levels in [100, 110, 115, 120, 125] {
            let fields = format!(
                r#"{{"metadata":{{"managedFields":[{{"manager":"ann","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{}}}]}}}}"#,
                nest(levels).replace("\"a\"", "\"f:a\"")
            );
            let code = target.patch(format, fields).await;
            assert!([200, 400, 422].contains(&code), "{format}: {code}");
        }
    }
    target.expect_survival().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strategic_patch_with_many_directives_is_applied_in_time() {
    let target = Target::start().await;
    let directives: Vec<String> = (0..90_000)
        .map(|at| format!(r#""$setElementOrder/k{at}":[]"#))
        .collect();
    let patch = format!(r#"{{"data":{{{}}}}}"#, directives.join(","));
    // A quadratic algorithm would exceed the timeout of the client.
    assert_eq!(target.patch(STRATEGIC_PATCH, patch).await, 200);
    target.expect_survival().await;
}

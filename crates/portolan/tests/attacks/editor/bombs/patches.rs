//! Patches of each format.

use client::{APPLY_PATCH, MERGE_PATCH, STRATEGIC_PATCH};

use super::{JSON_PATCH, Target, nest};

/// The patch ends in this refusal, and the server goes on.
async fn refuses(patch: String, code: u16) {
    let target = Target::start().await;
    assert_eq!(target.patch(JSON_PATCH, patch).await, code);
    target.expect_survival().await;
}

/// 110 levels, with the earlier result moved to their end, again and again: 400 KB become 44,000 levels.
#[tokio::test(flavor = "multi_thread")]
async fn refuses_a_json_patch_that_moves_the_object_deeper() {
    let (value, end) = (nest(110), "/a".repeat(110));
    let round = format!(
        r#",{{"op":"add","path":"/n","value":{value}}},{{"op":"move","from":"/x","path":"/n{end}/a"}},{{"op":"move","from":"/n","path":"/x"}}"#
    );
    let patch = format!(
        r#"[{{"op":"add","path":"/x","value":{{}}}}{}]"#,
        round.repeat(400)
    );
    refuses(patch, 422).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_a_json_patch_that_copies_the_object_deeper() {
    let round = r#",{"op":"copy","from":"/x","path":"/y"},{"op":"add","path":"/x","value":{}},{"op":"move","from":"/y","path":"/x/a"}"#;
    let patch = format!(
        r#"[{{"op":"add","path":"/x","value":{{}}}}{}]"#,
        round.repeat(3_000)
    );
    refuses(patch, 422).await;
}

/// Deep lists count as deep objects do.
#[tokio::test(flavor = "multi_thread")]
async fn refuses_a_json_patch_that_moves_lists_deeper() {
    let (value, end) = (
        format!("{}{}", "[".repeat(110), "]".repeat(110)),
        "/0".repeat(109),
    );
    let round = format!(
        r#",{{"op":"add","path":"/n","value":{value}}},{{"op":"move","from":"/x","path":"/n{end}/-"}},{{"op":"move","from":"/n","path":"/x"}}"#
    );
    let patch = format!(r#"[{{"op":"add","path":"/x","value":[]}}{}]"#, round.repeat(400));
    refuses(patch, 422).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_a_json_patch_that_doubles_the_object() {
    let copy = r#",{"op":"copy","from":"","path":"/l/-"}"#;
    let patch = format!(r#"[{{"op":"add","path":"/l","value":[]}}{}]"#, copy.repeat(60));
    refuses(patch, 413).await;
}

/// One text of a megabyte, 9,000 times.
#[tokio::test(flavor = "multi_thread")]
async fn refuses_a_json_patch_that_copies_a_large_text() {
    let large = "x".repeat(1 << 20);
    let copies: Vec<String> = (0..9_000)
        .map(|at| format!(r#",{{"op":"copy","from":"/data/a","path":"/data/b{at}"}}"#))
        .collect();
    let patch = format!(
        r#"[{{"op":"add","path":"/data/a","value":"{large}"}}{}]"#,
        copies.concat()
    );
    refuses(patch, 422).await;
}

/// Each insertion at the beginning of a list shifts a million items.
#[tokio::test(flavor = "multi_thread")]
async fn refuses_a_json_patch_that_shifts_a_long_list() {
    let list = format!("[{}0]", "0,".repeat(1_000_000));
    let add = r#",{"op":"add","path":"/l/0","value":0}"#;
    let patch = format!(
        r#"[{{"op":"add","path":"/l","value":{list}}}{}]"#,
        add.repeat(9_000)
    );
    refuses(patch, 413).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_json_patches_with_long_pointers() {
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
async fn refuses_json_patches_of_more_than_10000_operations() {
    let operations = [r#"{"op":"remove","path":"/a"}"#; 10_001].join(",");
    refuses(format!("[{operations}]"), 413).await;
}

/// No format reads a text that is deeper than an object may be.
#[tokio::test(flavor = "multi_thread")]
async fn refuses_deep_texts_in_each_format() {
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

/// Merging once more makes no object deeper than the deepest text.
#[tokio::test(flavor = "multi_thread")]
async fn merges_no_object_deeper_than_can_be_read() {
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
async fn a_strategic_patch_of_many_fields_holds_nobody_up() {
    let target = Target::start().await;
    let directives: Vec<String> = (0..90_000)
        .map(|at| format!(r#""$setElementOrder/k{at}":[]"#))
        .collect();
    let patch = format!(r#"{{"data":{{{}}}}}"#, directives.join(","));
    // Quadratic work would take longer than the client waits.
    assert_eq!(target.patch(STRATEGIC_PATCH, patch).await, 200);
    target.expect_survival().await;
}

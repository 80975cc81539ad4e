//! Collections of large objects in a form whose encoding needs the trees of all objects at once.

use http::Method;
use serde_json::json;

use super::{OBJECTS, Target};

/// Objects of 1 MB, together more than 32 MiB.
const LARGE_OBJECTS: usize = 36;
const LARGE_OBJECT_BYTES: usize = 1_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn large_collections_are_not_encoded_as_one_tree() {
    let target = Target::start().await;
    let text = "x".repeat(LARGE_OBJECT_BYTES);
    for number in 0..LARGE_OBJECTS {
        let object = json!({"metadata": {"name": format!("large-{number}")}, "data": {"text": text}});
        let created = target.code(Method::POST, OBJECTS, client::JSON, object.to_string());
        assert_eq!(created.await, 200);
    }
    let code = async |method: Method, query: &str| {
        let path = format!("{OBJECTS}?{query}");
        target.code(method, &path, client::JSON, "").await
    };
    assert_eq!(code(Method::GET, "pretty=true").await, 413);
    assert_eq!(code(Method::DELETE, "pretty=true&dryRun=All").await, 413);
    assert_eq!(code(Method::GET, "pretty=true&limit=1").await, 200);
    target.expect_survival().await;
}

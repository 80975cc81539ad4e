//! Lists of objects in pages.

use client::{Client, ClientError, push_escaped};
use serde_json::Value;

/// Objects of one page of a list.
const PAGE_OBJECTS: usize = 1_000;
/// Maximum of pages of a list: 1,000,000 objects.
const PAGES_MAX: usize = 1_000;
/// Maximum of objects of a list.
pub(crate) const OBJECTS_MAX: usize = PAGES_MAX * PAGE_OBJECTS;

/// Lists a collection in pages. `field_selector` is "" for all objects. A part of the objects would lead to wrong
/// conclusions, so the result is `None` if there are more than [`OBJECTS_MAX`].
///
/// # Errors
///
/// A [`ClientError`] if a request fails.
pub(crate) async fn list(
    client: &Client,
    collection: &str,
    field_selector: &str,
) -> Result<Option<Vec<Value>>, ClientError> {
    let mut pages = Vec::new();
    let mut token = String::new();
    while pages.len() < PAGES_MAX {
        let mut path = format!("{collection}?limit={PAGE_OBJECTS}");
        for (parameter, value) in [("continue", token.as_str()), ("fieldSelector", field_selector)] {
            if !value.is_empty() {
                path.push_str(&format!("&{parameter}="));
                push_escaped(&mut path, value);
            }
        }
        let page: Value = client.get(&path).await?;
        token = page["metadata"]["continue"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        pages.push(page);
        if token.is_empty() {
            return Ok(Some(pages));
        }
    }
    Ok(None)
}

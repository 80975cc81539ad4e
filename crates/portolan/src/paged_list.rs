//! Lists of objects in pages.

use client::{Client, ClientError, PageSize, push_escaped};
use serde_json::Value;

/// Objects of one page of a list.
const PAGE_OBJECTS: usize = 1_000;
/// Maximum number of objects of a list.
pub(crate) const OBJECTS_MAX: usize = 1_000_000;

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
    let (mut pages, mut objects) = (Vec::new(), 0);
    let mut token = String::new();
    let mut size = PageSize::new(PAGE_OBJECTS);
    while objects < OBJECTS_MAX {
        let mut path = format!("{collection}?limit={}", size.objects());
        for (parameter, value) in [("continue", token.as_str()), ("fieldSelector", field_selector)] {
            if !value.is_empty() {
                path.push_str(&format!("&{parameter}="));
                push_escaped(&mut path, value);
            }
        }
        let page: Value = match client.get(&path).await {
            Err(error) if size.shrink(&error) => continue,
            page => page?,
        };
        // A page without objects counts, too, so that the number of pages is bounded.
        objects += page["items"].as_array().map_or(1, |items| items.len().max(1));
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

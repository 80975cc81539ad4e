//! Lists of names and values in messages.

/// Joins items with quotes: `"a", "b"`.
pub(super) fn join_quoted<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<String> = items
        .into_iter()
        .map(|item| format!("\"{}\"", item.as_ref()))
        .collect();
    quoted.join(", ")
}

/// Returns the singular or the plural for `count` things.
pub(super) fn plural<'w>(singular: &'w str, plural: &'w str, count: usize) -> &'w str {
    match count {
        1 => singular,
        _ => plural,
    }
}

/// Formats container names: `container "a"`, `containers "a", "b"`.
pub(super) fn format_containers(names: &[&str]) -> String {
    format!(
        "{} {}",
        plural("container", "containers", names.len()),
        join_quoted(names)
    )
}

/// Formats the violating security contexts: `pod and containers "a", "b"`; `None` if no context violates the check.
pub(super) fn format_setters(is_pod: bool, names: &[&str]) -> Option<String> {
    match (is_pod, names) {
        (false, []) => None,
        (true, []) => Some("pod".to_owned()),
        (false, names) => Some(format_containers(names)),
        (true, names) => Some(format!("pod and {}", format_containers(names))),
    }
}

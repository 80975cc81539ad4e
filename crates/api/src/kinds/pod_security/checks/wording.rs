//! Lists of names and values in messages.

/// `"a", "b"`.
pub(super) fn join_quoted<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<String> = items
        .into_iter()
        .map(|item| format!("\"{}\"", item.as_ref()))
        .collect();
    quoted.join(", ")
}

/// The form of a word for `count` things.
pub(super) fn plural<'w>(singular: &'w str, plural: &'w str, count: usize) -> &'w str {
    match count {
        1 => singular,
        _ => plural,
    }
}

/// `container "a"`, `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    format!(
        "{} {}",
        plural("container", "containers", names.len()),
        join_quoted(names)
    )
}

/// Whose fields have a bad value: `pod and containers "a", "b"`. `None` if nobody's have.
pub(super) fn setters(is_pod: bool, names: &[&str]) -> Option<String> {
    match (is_pod, names) {
        (false, []) => None,
        (true, []) => Some("pod".to_owned()),
        (false, names) => Some(containers(names)),
        (true, names) => Some(format!("pod and {}", containers(names))),
    }
}

//! Expansion of `$(VAR)` (upstream's `third_party/forked/golang/expansion`; ENV-09). Pure.

/// Replaces `$(NAME)` by the value of the variable. `$$` stands for `$`. Unknown and unclosed references stay.
///
/// ```
/// use agent::environment::expand;
///
/// let variable = |name: &str| (name == "PORT").then_some("80");
/// assert_eq!(expand("$(PORT) $(HOST) $$(PORT)", variable), "80 $(HOST) $(PORT)");
/// ```
pub fn expand<'a>(text: &str, value_of: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|r| r.split_once(')')) {
            match value_of(name) {
                Some(value) => expanded.push_str(value),
                None => expanded.push_str(&format!("$({name})")),
            }
            rest = after;
        } else {
            expanded.push('$');
        }
    }
    expanded.push_str(rest);
    expanded
}

//! Expansion of `$(VAR)` (upstream's `third_party/forked/golang/expansion`; ENV-09). Pure.

/// Replaces `$(NAME)` by the value of the variable. `$$` stands for `$`. Unknown and unclosed references stay.
///
/// Returns `None` if the result has more than `bytes_max` bytes. Values may contain expanded values, so that a few
/// variables grow to any size.
///
/// ```
/// use agent::containers::environment::expand;
///
/// let variable = |name: &str| (name == "PORT").then_some("80");
/// let expanded = expand("$(PORT) $(HOST) $$(PORT)", 100, variable);
/// assert_eq!(expanded.as_deref(), Some("80 $(HOST) $(PORT)"));
/// assert_eq!(expand("$(PORT) $(PORT)", 4, variable), None);
/// ```
pub fn expand<'a>(
    text: &str,
    bytes_max: usize,
    mut value_of: impl FnMut(&str) -> Option<&'a str>,
) -> Option<String> {
    let mut expanded = String::new();
    let mut push = |part: &str| {
        let fits = expanded.len() + part.len() <= bytes_max;
        fits.then(|| expanded.push_str(part))
    };
    // Bytes behind the last `)`. A search for the end of each unclosed reference there would take quadratic time.
    let unclosed = text
        .rsplit_once(')')
        .map_or(text.len(), |(_, behind)| behind.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        push(before)?;
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            push("$")?;
            rest = after;
        } else if rest.len() > unclosed
            && let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')'))
        {
            match value_of(name) {
                Some(value) => push(value)?,
                None => push(&format!("$({name})"))?,
            }
            rest = after;
        } else {
            push("$")?;
        }
    }
    push(rest)?;
    Some(expanded)
}

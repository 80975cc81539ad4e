//! Names that resemble each other.

/// Maximum length of compared texts: labels and port names are shorter.
const CHARACTERS_MAX: usize = 128;

/// Returns the number of insertions, deletions, substitutions and swaps of neighbours between two texts.
pub(crate) fn edit_distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(CHARACTERS_MAX).collect();
    let b: Vec<char> = b.chars().take(CHARACTERS_MAX).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let substitution = above[j] + usize::from(x != y);
            let mut least = substitution.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = above;
        above = row;
    }
    above.last().copied().unwrap_or_default()
}

/// Returns true if one text is a likely misspelling of the other. The texts differ in at most a third of the
/// characters, or one text contains the other.
pub(crate) fn is_similar(a: &str, b: &str) -> bool {
    let longest = a.chars().count().max(b.chars().count());
    let is_part = a.len().min(b.len()) >= 3 && (a.contains(b) || b.contains(a));
    is_part || edit_distance(a, b) <= longest / 3
}

/// Returns the candidate with the smallest distance to `wanted`, if it is similar.
pub(crate) fn nearest_name<'c>(
    requested: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    candidates
        .into_iter()
        .filter(|candidate| is_similar(requested, candidate))
        .min_by_key(|candidate| (edit_distance(requested, candidate), *candidate))
}

#[cfg(test)]
mod tests;

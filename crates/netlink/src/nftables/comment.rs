//! Comments in the format of the `nft` program: user data that the kernel stores without interpretation
//! (`libnftnl/udata.h`).

/// Maximum length of a comment in bytes that `nft` accepts.
const BYTES_MAX: usize = 128;

/// Kind of the commented object, whose value is the type of the user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Owner {
    /// Table, chain, rule or element.
    Most = 0,
    /// Set or map.
    Set = 7,
}

/// Appends a comment to user data. A longer comment is cut.
pub(super) fn append(user_data: &mut Vec<u8>, owner: Owner, comment: &str) {
    let comment = truncate_to_limit(comment);
    if !comment.is_empty() {
        user_data.extend_from_slice(&[owner as u8, comment.len() as u8 + 1]);
        user_data.extend_from_slice(comment.as_bytes());
        user_data.push(0);
    }
}

/// Returns the comment in user data.
pub(super) fn read(mut user_data: &[u8], owner: Owner) -> Option<&str> {
    while let [kind, length, rest @ ..] = user_data {
        let value = rest.get(..usize::from(*length))?;
        if *kind == owner as u8 {
            return std::str::from_utf8(value.strip_suffix(&[0]).unwrap_or(value)).ok();
        }
        user_data = rest.get(usize::from(*length)..)?;
    }
    None
}

/// Returns the longest prefix that fits.
fn truncate_to_limit(comment: &str) -> &str {
    let end = (0..=comment.len().min(BYTES_MAX))
        .rev()
        .find(|&end| comment.is_char_boundary(end));
    comment.get(..end.unwrap_or(0)).unwrap_or_default()
}

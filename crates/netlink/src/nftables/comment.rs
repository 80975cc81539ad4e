//! Comments, as the `nft` program writes and shows them: user data that the kernel keeps and does not read
//! (`libnftnl/udata.h`).

/// Longest comment in bytes that `nft` takes.
const BYTES_MAX: usize = 128;

/// What a comment is on; the number that marks it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Owner {
    /// A table, a chain, a rule, an element.
    Most = 0,
    /// A set or a map.
    Set = 7,
}

/// Appends a comment to user data. Longer ones are cut.
pub fn append(user_data: &mut Vec<u8>, owner: Owner, comment: &str) {
    let comment = cut(comment);
    if !comment.is_empty() {
        user_data.extend_from_slice(&[owner as u8, comment.len() as u8 + 1]);
        user_data.extend_from_slice(comment.as_bytes());
        user_data.push(0);
    }
}

/// The comment in user data.
pub fn read(mut user_data: &[u8], owner: Owner) -> Option<&str> {
    while let [kind, length, rest @ ..] = user_data {
        let value = rest.get(..usize::from(*length))?;
        if *kind == owner as u8 {
            return std::str::from_utf8(value.strip_suffix(&[0]).unwrap_or(value)).ok();
        }
        user_data = rest.get(usize::from(*length)..)?;
    }
    None
}

/// The longest beginning that fits.
fn cut(comment: &str) -> &str {
    let end = (0..=comment.len().min(BYTES_MAX))
        .rev()
        .find(|&end| comment.is_char_boundary(end));
    comment.get(..end.unwrap_or(0)).unwrap_or_default()
}

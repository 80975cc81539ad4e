//! Documents of a YAML stream.

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Returns the first document of a stream. As upstream, the others are not read.
///
/// A marker stands at the beginning of a line, where no text of a document can contain it.
pub(super) fn first_document(stream: &[u8]) -> &[u8] {
    let mut end = 0;
    let mut has_begun = false;
    for line in stream.split_inclusive(|byte| *byte == b'\n') {
        let text = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        let is_start = is_marker(text, b"---");
        if has_begun && (is_start || is_marker(text, b"...")) {
            return &stream[..end];
        }
        has_begun |= is_start || is_content(text);
        end += line.len();
    }
    stream
}

/// Returns true if the line begins with the marker, alone or before white space.
fn is_marker(line: &[u8], marker: &[u8]) -> bool {
    let rest = line.strip_prefix(marker);
    rest.is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
}

/// Returns true if the line belongs to a document: it is not empty, no comment and no directive.
fn is_content(line: &[u8]) -> bool {
    !line.starts_with(b"%")
        && line
            .trim_ascii_start()
            .first()
            .is_some_and(|first| *first != b'#')
}

#[cfg(test)]
mod tests;

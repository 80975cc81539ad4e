//! Rewriter of the links of a page that arrives in pieces. It holds one tag at most.

use super::attributes::{element, rewritten_tag};
use super::links::Links;

/// Longest tag whose links are rewritten.
const TAG_BYTES_MAX: usize = 64 << 10;
/// Elements whose content is text, not tags (RAWTEXT and RCDATA of the HTML standard).
const TEXT_ELEMENTS: [&str; 8] = [
    "iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp",
];
const COMMENT_BEGIN: &[u8] = b"<!--";
const COMMENT_END: &[u8] = b"-->";

/// Position in the page.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Text between tags.
    Text,
    /// In a tag; the quote of the attribute value, if the position is in one.
    Tag { quote: Option<u8>, is_after_sign: bool },
    /// In a comment; the number of bytes of its end that were read.
    Comment { seen: usize },
    /// In the content of an element that contains text only; the element's end tag without `>`.
    Content { end: Vec<u8> },
}

/// Rewriter of links.
pub(super) struct LinkRewriter {
    links: Links,
    state: State,
    /// Begin of a tag that has not ended.
    tag: Vec<u8>,
}

impl LinkRewriter {
    pub(super) fn new(links: Links) -> Self {
        Self {
            links,
            state: State::Text,
            tag: Vec::new(),
        }
    }

    /// Appends the next piece of the page to `out`, except for a tag that continues in later pieces.
    pub(super) fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        for byte in piece {
            self.push_byte(*byte, out);
        }
    }

    /// Appends the unwritten rest at the end of the page.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.tag);
    }

    fn push_byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        match std::mem::replace(&mut self.state, State::Text) {
            State::Text if byte == b'<' => self.begin_tag(),
            State::Text => out.push(byte),
            State::Tag { quote, is_after_sign } => self.push_tag(byte, quote, is_after_sign, out),
            State::Comment { seen } => {
                out.push(byte);
                self.state = comment_state(byte, seen);
            }
            State::Content { end } => self.push_content(byte, end, out),
        }
    }

    fn begin_tag(&mut self) {
        self.tag.push(b'<');
        self.state = State::Tag {
            quote: None,
            is_after_sign: false,
        };
    }

    fn push_tag(&mut self, byte: u8, quote: Option<u8>, is_after_sign: bool, out: &mut Vec<u8>) {
        self.tag.push(byte);
        if self.tag == COMMENT_BEGIN {
            out.append(&mut self.tag);
            self.state = State::Comment { seen: 0 };
            return;
        }
        let is_first = self.tag.len() == 2;
        if is_first && byte == b'<' {
            out.append(&mut self.tag);
            out.pop();
            return self.begin_tag();
        }
        if (is_first && !byte.is_ascii_alphabetic() && !matches!(byte, b'/' | b'!' | b'?'))
            || self.tag.len() > TAG_BYTES_MAX
        {
            // No tag, or one that is too long: the state is text.
            out.append(&mut self.tag);
            return;
        }
        let quote = match quote {
            Some(open) => Some(open).filter(|open| *open != byte),
            None if byte == b'>' => return self.end_tag(out),
            None => Some(byte).filter(|byte| is_after_sign && matches!(byte, b'"' | b'\'')),
        };
        let is_after_sign =
            quote.is_none() && (byte == b'=' || (is_after_sign && byte.is_ascii_whitespace()));
        self.state = State::Tag { quote, is_after_sign };
    }

    fn end_tag(&mut self, out: &mut Vec<u8>) {
        let tag = std::mem::take(&mut self.tag);
        // Links of pages in encodings other than UTF-8 are ASCII, too; such tags stay as they are.
        let Ok(text) = std::str::from_utf8(&tag) else {
            out.extend(tag);
            return;
        };
        out.extend(rewritten_tag(text, &self.links).into_bytes());
        let element = element(text);
        if TEXT_ELEMENTS.contains(&element.as_str()) {
            self.state = State::Content {
                end: format!("</{element}").into_bytes(),
            };
        }
    }

    fn push_content(&mut self, byte: u8, end: Vec<u8>, out: &mut Vec<u8>) {
        if byte == b'<' {
            out.append(&mut self.tag);
        }
        self.tag.push(byte);
        let is_begin = end.get(..self.tag.len());
        if !is_begin.is_some_and(|begin| begin.eq_ignore_ascii_case(&self.tag)) {
            out.append(&mut self.tag);
        }
        self.state = if self.tag.len() == end.len() {
            State::Tag {
                quote: None,
                is_after_sign: false,
            }
        } else {
            State::Content { end }
        };
    }
}

fn comment_state(byte: u8, seen: usize) -> State {
    let seen = match byte {
        b'-' => (seen + 1).min(2),
        b'>' if seen == 2 => COMMENT_END.len(),
        _ => 0,
    };
    if seen == COMMENT_END.len() {
        State::Text
    } else {
        State::Comment { seen }
    }
}

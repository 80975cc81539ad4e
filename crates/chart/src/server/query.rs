//! Parameters in the query of a URL.

/// Maximum number of bytes of a parameter: a trace needs two names.
const VALUE_BYTES_MAX: usize = 2_048;

/// Returns the decoded value of a parameter. `None` if it is absent, too long, or not UTF-8.
pub(super) fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(found, _)| *found == name)?;
    decode(value).filter(|value| value.len() <= VALUE_BYTES_MAX)
}

/// Decodes the form of RFC 3986, section 2.1, with `+` for a space.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => digit(rest.next()?)? << 4 | digit(rest.next()?)?,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn digit(byte: u8) -> Option<u8> {
    let digit = char::from(byte).to_digit(16)?;
    u8::try_from(digit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = "url=tcp%3A%2F%2F%5B2001:db8::1%5D:80&from=pod/shop/cart+1&empty=";
        assert_eq!(parameter(query, "url").as_deref(), Some("tcp://[2001:db8::1]:80"));
        assert_eq!(parameter(query, "from").as_deref(), Some("pod/shop/cart 1"));
        assert_eq!(parameter(query, "empty").as_deref(), Some(""));
        assert_eq!(parameter(query, "absent"), None);
    }

    #[test]
    fn invalid_parameters_are_absent() {
        for value in ["%", "%2", "%zz", "%ff%fe", "%+1"] {
            assert_eq!(parameter(&format!("url={value}"), "url"), None, "{value}");
        }
        let long = "x".repeat(VALUE_BYTES_MAX + 1);
        assert_eq!(parameter(&format!("url={long}"), "url"), None);
    }
}

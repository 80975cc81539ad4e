//! Forms of names, labels and port names. Each function returns the messages of the broken rules in upstream's words;
//! an empty list means that the value is valid.

/// Longest DNS label (RFC 1123).
pub const LABEL_BYTES_MAX: usize = 63;
/// Longest DNS subdomain (RFC 1123).
pub const SUBDOMAIN_BYTES_MAX: usize = 253;
/// Longest IANA service name (RFC 6335, 5.1).
pub const PORT_NAME_BYTES_MAX: usize = 15;
/// Maximum length of a segment of a URL path in bytes.
const PATH_SEGMENT_BYTES_MAX: usize = 4096;

const LABEL_FORM: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
     and must start and end with an alphanumeric character";
const SUBDOMAIN_FORM: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
     '-' or '.', and must start and end with an alphanumeric character";
const UNDERSCORE_FORM: &str = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
const UNDERSCORE_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
     '_', '-' or '.', and must start and end with an alphanumeric character";
const WILDCARD_FORM: &str = "\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const WILDCARD_RULE: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, \
     which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
const LABEL_1035_FORM: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_1035_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
     with an alphabetic character, and end with an alphanumeric character";
const QUALIFIED_FORM: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
     with an alphanumeric character";
const LABEL_VALUE_FORM: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const LABEL_VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', \
     '_' or '.', and must start and end with an alphanumeric character";

/// Checks an RFC 1123 label (VAL-01, VAL-11).
pub fn dns_label(value: &str) -> Vec<String> {
    let mut faults = length_at_most(value, LABEL_BYTES_MAX);
    if !is_label(value) {
        faults.push(if is_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            form(LABEL_RULE, LABEL_FORM, &["my-name", "123-abc"])
        });
    }
    faults
}

/// Checks an RFC 1123 subdomain (VAL-09, EPV-01).
pub fn dns_subdomain(value: &str) -> Vec<String> {
    let mut faults = length_at_most(value, SUBDOMAIN_BYTES_MAX);
    if !is_subdomain(value) {
        faults.push(form(SUBDOMAIN_RULE, SUBDOMAIN_FORM, &["example.com"]));
    }
    faults
}

/// Checks a search path of DNS: an RFC 1123 subdomain whose labels may contain underscores, as in SRV records (GATE-08).
pub fn dns_subdomain_with_underscores(value: &str) -> Vec<String> {
    let mut faults = length_at_most(value, SUBDOMAIN_BYTES_MAX);
    let is_label_with_underscores = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label);
        !label.starts_with('_') && is_label(&label.replace('_', "-"))
    };
    if !value.split('.').all(is_label_with_underscores) {
        faults.push(form(UNDERSCORE_RULE, UNDERSCORE_FORM, &["example.com"]));
    }
    faults
}

/// Checks an RFC 1123 subdomain whose first label is a wildcard.
pub fn wildcard_dns_subdomain(value: &str) -> Vec<String> {
    let mut faults = length_at_most(value, SUBDOMAIN_BYTES_MAX);
    if !value.strip_prefix("*.").is_some_and(is_subdomain) {
        faults.push(form(WILDCARD_RULE, WILDCARD_FORM, &["*.example.com"]));
    }
    faults
}

/// Checks an RFC 1035 label, which starts with a letter.
pub fn dns_1035_label(value: &str) -> Vec<String> {
    let mut faults = length_at_most(value, LABEL_BYTES_MAX);
    if !is_label(value) || !value.starts_with(|character: char| character.is_ascii_lowercase()) {
        faults.push(form(LABEL_1035_RULE, LABEL_1035_FORM, &["my-name", "abc-123"]));
    }
    faults
}

/// Checks a qualified name: `name` or `example.com/name` (label keys, VAL-15, VAL-42).
pub fn qualified_name(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut parts = value.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                faults.extend(
                    dns_subdomain(prefix)
                        .into_iter()
                        .map(|fault| format!("prefix part {fault}")),
                );
            }
            name
        }
        _ => {
            let rule = form(QUALIFIED_RULE, QUALIFIED_FORM, &["MyName", "my.name", "123-abc"]);
            return vec![format!(
                "a qualified name {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else {
        faults.extend(
            bytes_at_most(name, LABEL_BYTES_MAX)
                .into_iter()
                .map(|fault| format!("name part {fault}")),
        );
    }
    if !is_qualified_part(name) {
        let rule = form(QUALIFIED_RULE, QUALIFIED_FORM, &["MyName", "my.name", "123-abc"]);
        faults.push(format!("name part {rule}"));
    }
    faults
}

/// Checks a label value.
pub fn label_value(value: &str) -> Vec<String> {
    let mut faults = bytes_at_most(value, LABEL_BYTES_MAX);
    if !value.is_empty() && !is_qualified_part(value) {
        faults.push(form(
            LABEL_VALUE_RULE,
            LABEL_VALUE_FORM,
            &["MyValue", "my_value", "12345"],
        ));
    }
    faults
}

/// Checks the name of a container port, an IANA service name (VAL-14).
pub fn port_name(value: &str) -> Vec<String> {
    let mut faults = length_at_most(value, PORT_NAME_BYTES_MAX);
    let bytes = value.as_bytes();
    if bytes.is_empty()
        || !bytes
            .iter()
            .all(|&byte| is_lower_alphanumeric(byte) || byte == b'-')
    {
        faults.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !bytes.iter().any(u8::is_ascii_lowercase) {
        faults.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        faults.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        faults.push("must not begin or end with a hyphen".to_owned());
    }
    faults
}

/// Checks a port number (VAL-12).
pub fn port_number(value: i64) -> Vec<String> {
    if (1..=65535).contains(&value) {
        Vec::new()
    } else {
        vec!["must be between 1 and 65535, inclusive".to_owned()]
    }
}

/// Checks a key of a ConfigMap or Secret.
pub fn config_key(value: &str) -> Vec<String> {
    const KEY_BYTES_MAX: usize = 253;
    let mut faults = Vec::new();
    if value.len() > KEY_BYTES_MAX {
        faults.push(format!("must be no more than {KEY_BYTES_MAX} bytes"));
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if value.is_empty() || !value.bytes().all(is_plain) {
        faults.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match value {
        "." => faults.push("must not be '.'".to_owned()),
        ".." => faults.push("must not be '..'".to_owned()),
        value if value.starts_with("..") => faults.push("must not start with '..'".to_owned()),
        _ => {}
    }
    faults
}

/// Checks a name that is one segment of a URL path. Unlike upstream, it has a bound. No request could contain a longer
/// name, nor the token of a list whose page ends with such an object.
pub fn path_segment(value: &str) -> Vec<String> {
    if value == "." || value == ".." {
        return vec![format!("may not be '{value}'")];
    }
    let mut faults = bytes_at_most(value, PATH_SEGMENT_BYTES_MAX);
    let parts = ["/", "%"].iter().filter(|part| value.contains(**part));
    faults.extend(parts.map(|part| format!("may not contain '{part}'")));
    faults
}

/// Checks a fully qualified domain name of at least two labels; a trailing dot is allowed (EPV-10).
pub fn fully_qualified_domain(value: &str) -> Vec<String> {
    let name = value.strip_suffix('.').unwrap_or(value);
    let faults = dns_subdomain(name);
    if !faults.is_empty() {
        return vec![faults.join(",")];
    }
    if !name.contains('.') {
        return vec!["should be a domain with at least two segments separated by dots".to_owned()];
    }
    name.split('.')
        .map(dns_label)
        .find(|faults| !faults.is_empty())
        .map(|faults| faults.join(","))
        .into_iter()
        .collect()
}

fn is_label(value: &str) -> bool {
    let bytes = value.as_bytes();
    let ends_well = |byte: Option<&u8>| byte.is_some_and(|&byte| is_lower_alphanumeric(byte));
    ends_well(bytes.first())
        && ends_well(bytes.last())
        && bytes
            .iter()
            .all(|&byte| is_lower_alphanumeric(byte) || byte == b'-')
}

fn is_subdomain(value: &str) -> bool {
    value.split('.').all(is_label)
}

fn is_qualified_part(value: &str) -> bool {
    let bytes = value.as_bytes();
    let ends_well = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    ends_well(bytes.first())
        && ends_well(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn is_lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// As [`length_at_most`], with the words of upstream's messages about label keys and values.
fn bytes_at_most(value: &str, max: usize) -> Vec<String> {
    if value.len() > max {
        vec![format!("must be no more than {max} bytes")]
    } else {
        Vec::new()
    }
}

fn length_at_most(value: &str, max: usize) -> Vec<String> {
    if value.len() > max {
        vec![format!("must be no more than {max} characters")]
    } else {
        Vec::new()
    }
}

/// Builds the message of a rule, with examples and the regular expression.
fn form(rule: &str, expression: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!(
        "{rule} (e.g. {}regex used for validation is '{expression}')",
        examples.join(" or ")
    )
}

#[cfg(test)]
mod tests;

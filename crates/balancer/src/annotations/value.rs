//! Parsers for the values of annotations. Each fails with a description of the allowed values.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use api::edge_secret;
pub use api::edge_secret::SecretName;
use api::object::ServicePort;
use api::selector::LabelSelector;
use ipnet::IpNet;

/// Maximum length of a health check's path, which becomes part of a request.
const PATH_BYTES_MAX: usize = 1_024;
/// Maximum number of source ranges in one annotation.
const RANGES_MAX: usize = 1_000;
/// Maximum number of ports in one annotation: the edge listens on as many of a Service. Each is compared with each port
/// of the Service, and an object has room for tens of thousands of both.
pub const PORTS_MAX: usize = 256;
/// Maximum number of requirements and values of a node selector. Each is compared with the labels of each Node.
const SELECTOR_TERMS_MAX: usize = 256;
/// Maximum length of a host name, a cookie name or a prefix in a bucket.
const NAME_BYTES_MAX: usize = 253;

/// Invalid value, with a description of the allowed values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}")]
pub struct InvalidValue {
    expected: Cow<'static, str>,
}

impl InvalidValue {
    /// Returns an error with a description of the allowed values.
    pub fn expected(expected: impl Into<Cow<'static, str>>) -> Self {
        Self {
            expected: expected.into(),
        }
    }

    /// Returns the same error with another description, which `change` derives from the current one.
    #[must_use]
    pub fn describe(self, change: impl FnOnce(&str) -> String) -> Self {
        Self::expected(change(&self.expected))
    }

    /// Returns the description of the allowed values.
    pub fn into_expected(self) -> String {
        self.expected.into_owned()
    }
}

/// Reference to a port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortRef {
    /// By number.
    Number(u16),
    /// By name.
    Name(String),
}

impl PortRef {
    /// Returns true if it refers to `port`.
    pub fn matches(&self, port: &ServicePort) -> bool {
        match self {
            Self::Number(number) => port.port == *number,
            Self::Name(name) => port.name == *name,
        }
    }
}

/// Set of ports of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortSet {
    /// All ports.
    All,
    /// Listed ports.
    Of(Vec<PortRef>),
}

impl PortSet {
    /// Returns true if the set contains `port`.
    pub fn contains(&self, port: &ServicePort) -> bool {
        match self {
            Self::All => true,
            Self::Of(ports) => ports.iter().any(|one| one.matches(port)),
        }
    }
}

/// Parses `true` or `false`.
///
/// # Errors
/// The value is neither.
pub fn bool(text: &str) -> Result<bool, InvalidValue> {
    keyword(text, &[("true", true), ("false", false)])
}

/// Parses `on` or `off`.
///
/// # Errors
/// The value is neither.
pub fn on_off(text: &str) -> Result<bool, InvalidValue> {
    keyword(text, &[("on", true), ("off", false)])
}

/// Parses one of several keywords, without regard to case.
///
/// # Errors
/// The value is none of them.
pub fn keyword<T: Clone>(text: &str, keywords: &[(&str, T)]) -> Result<T, InvalidValue> {
    let mut found = keywords.iter();
    let found = found.find(|(keyword, _)| keyword.eq_ignore_ascii_case(text));
    found.map(|(_, value)| value.clone()).ok_or_else(|| {
        let keywords: Vec<&str> = keywords.iter().map(|(keyword, _)| *keyword).collect();
        InvalidValue::expected(keywords.join(" or "))
    })
}

/// Parses an integer within bounds.
///
/// # Errors
/// The value is not an integer within the bounds.
pub fn number(text: &str, bounds: RangeInclusive<u32>) -> Result<u32, InvalidValue> {
    number_within(text, &bounds, "a number")
}

/// Parses a duration in seconds within bounds.
///
/// # Errors
/// The value is not an integer within the bounds.
pub fn seconds(text: &str, bounds: RangeInclusive<u32>) -> Result<Duration, InvalidValue> {
    Ok(Duration::from_secs(
        number_within(text, &bounds, "seconds")?.into(),
    ))
}

/// Parses a duration in minutes within bounds.
///
/// # Errors
/// The value is not an integer within the bounds.
pub fn minutes(text: &str, bounds: RangeInclusive<u32>) -> Result<Duration, InvalidValue> {
    let minutes: u64 = number_within(text, &bounds, "minutes")?.into();
    Ok(Duration::from_secs(minutes * 60))
}

/// Parses a duration in milliseconds within bounds.
///
/// # Errors
/// The value is not an integer within the bounds.
pub fn milliseconds(text: &str, bounds: RangeInclusive<u32>) -> Result<Duration, InvalidValue> {
    Ok(Duration::from_millis(
        number_within(text, &bounds, "milliseconds")?.into(),
    ))
}

/// Parses a rate in Mbit/s within bounds, as bytes per second. A megabit is a million bits.
///
/// # Errors
/// The value is not an integer within the bounds.
pub fn megabits_per_second(text: &str, bounds: RangeInclusive<u32>) -> Result<u64, InvalidValue> {
    const MEGABIT_BYTES: u64 = 1_000_000 / 8;
    Ok(u64::from(number_within(text, &bounds, "Mbit/s")?) * MEGABIT_BYTES)
}

fn number_within(text: &str, bounds: &RangeInclusive<u32>, unit: &str) -> Result<u32, InvalidValue> {
    let number = text.parse().ok().filter(|number| bounds.contains(number));
    number.ok_or_else(|| {
        let (first, last) = (bounds.start(), bounds.end());
        InvalidValue::expected(format!("{unit} from {first} to {last}"))
    })
}

/// Parses a duration such as `15s`, `1m30s` or `500ms`; a number without unit is in seconds. At most 24 hours.
///
/// # Errors
/// The value has another form or exceeds 24 hours.
pub fn duration(text: &str) -> Result<Duration, InvalidValue> {
    const DURATION_MAX: Duration = Duration::from_secs(86_400);
    let invalid = || InvalidValue::expected("a span of time up to 24h, such as 15s or 1m30s");
    if let Ok(seconds) = text.parse::<u32>() {
        let duration = Duration::from_secs(seconds.into());
        return Some(duration)
            .filter(|duration| *duration <= DURATION_MAX)
            .ok_or_else(invalid);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest
            .find(|character: char| !character.is_ascii_digit())
            .ok_or_else(invalid)?;
        let number: u32 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = &rest[digits..];
        let units = [
            ("ms", Duration::from_millis(1)),
            ("s", Duration::from_secs(1)),
            ("m", Duration::from_secs(60)),
            ("h", Duration::from_secs(3_600)),
        ];
        let (unit, length) = units
            .into_iter()
            .find(|(unit, _)| rest.starts_with(unit))
            .ok_or_else(invalid)?;
        rest = &rest[unit.len()..];
        let part = length.checked_mul(number).ok_or_else(invalid)?;
        total = total
            .checked_add(part)
            .filter(|sum| *sum <= DURATION_MAX)
            .ok_or_else(invalid)?;
    }
    Some(total)
        .filter(|duration| !duration.is_zero())
        .ok_or_else(invalid)
}

/// Parses a port number.
///
/// # Errors
/// The value is not a number from 1 to 65535.
pub fn port(text: &str) -> Result<u16, InvalidValue> {
    let number = text.parse().ok().filter(|port| *port != 0);
    number.ok_or_else(|| InvalidValue::expected("a port number from 1 to 65535"))
}

/// Parses a reference to a port, by name or number.
///
/// # Errors
/// The value is neither a port number nor a port name.
pub fn port_ref(text: &str) -> Result<PortRef, InvalidValue> {
    let text = text.trim();
    if let Ok(number) = text.parse::<u16>()
        && number != 0
    {
        return Ok(PortRef::Number(number));
    }
    let is_name = !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_name = is_name && text.bytes().any(|byte| byte.is_ascii_alphabetic());
    if is_name {
        return Ok(PortRef::Name(text.to_owned()));
    }
    Err(InvalidValue::expected(
        "names or numbers of the Service's ports, separated by commas",
    ))
}

/// Parses a set of ports: `*`, or names and numbers separated by commas.
///
/// # Errors
/// An element is neither a port number nor a port name, or there are more than [`PORTS_MAX`].
pub fn ports(text: &str) -> Result<PortSet, InvalidValue> {
    if text == "*" {
        return Ok(PortSet::All);
    }
    let ports = text.split(',').take(PORTS_MAX + 1).map(port_ref);
    let ports: Vec<PortRef> = ports
        .collect::<Result<_, _>>()
        .map_err(|error: InvalidValue| error.describe(|expected| format!("* or {expected}")))?;
    if ports.len() > PORTS_MAX {
        let expected = format!("* or up to {PORTS_MAX} names or numbers of the Service's ports");
        return Err(InvalidValue::expected(expected));
    }
    Ok(PortSet::Of(ports))
}

/// Parses CIDR ranges and single addresses, separated by commas.
///
/// # Errors
/// The value has no range, an invalid one, or more than 1,000 ranges.
pub fn ranges(text: &str) -> Result<Vec<IpNet>, InvalidValue> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let ranges: Option<Vec<IpNet>> = parts.take(RANGES_MAX + 1).map(range).collect();
    ranges
        .filter(|ranges| !ranges.is_empty() && ranges.len() <= RANGES_MAX)
        .ok_or_else(|| {
            let expected = format!("up to {RANGES_MAX} ranges such as 192.0.2.0/24,2001:db8::/64");
            InvalidValue::expected(expected)
        })
}

/// Parses a CIDR range or single address.
pub fn range(text: &str) -> Option<IpNet> {
    text.parse::<IpNet>()
        .ok()
        .map(|range| range.trunc())
        .or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

/// Parses references to Secrets with certificates, as [`edge_secret::parse`] reads them.
///
/// # Errors
/// The value has another form, or names too many Secrets.
pub fn secrets(text: &str) -> Result<Vec<SecretName>, InvalidValue> {
    edge_secret::parse(text).ok_or_else(|| {
        InvalidValue::expected(format!(
            "up to {} Secrets of type kubernetes.io/tls separated by commas, each as name, namespace/name, or arn:…/name",
            edge_secret::SECRETS_MAX
        ))
    })
}

/// Parses the path of a health check, with its query.
///
/// # Errors
/// The value is not an absolute path of printable ASCII characters.
pub fn path(text: &str) -> Result<Arc<str>, InvalidValue> {
    let fits = text.starts_with('/')
        && text.len() <= PATH_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_graphic());
    fits.then(|| text.into())
        .ok_or_else(|| InvalidValue::expected("a path such as /healthz"))
}

/// Parses the value of a `Host` header: a host name or address, with or without port.
///
/// # Errors
/// The value contains other characters or is too long.
pub fn host(text: &str) -> Result<Arc<str>, InvalidValue> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':' | b'[' | b']');
    let fits = !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(is_part);
    fits.then(|| text.into())
        .ok_or_else(|| InvalidValue::expected("a host name such as www.example.com"))
}

/// Parses a host name for a status (RFC 1123 subdomain), in lower case.
///
/// # Errors
/// The value is not a subdomain, or is an address.
pub fn hostname(text: &str) -> Result<String, InvalidValue> {
    let text = text.to_ascii_lowercase();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        bytes.len() <= 63
            && is_end(bytes.first())
            && is_end(bytes.last())
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    };
    let fits =
        text.len() <= NAME_BYTES_MAX && text.split('.').all(is_label) && text.parse::<IpAddr>().is_err();
    fits.then_some(text)
        .ok_or_else(|| InvalidValue::expected("a host name such as www.example.com"))
}

/// Parses the name of a cookie (token of RFC 9110, section 5.6.2).
///
/// # Errors
/// The value is not a token.
pub fn cookie_name(text: &str) -> Result<Arc<str>, InvalidValue> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let fits = !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(is_token);
    fits.then(|| text.into())
        .ok_or_else(|| InvalidValue::expected("a cookie's name, of letters, digits and !#$%&'*+-.^_`|~"))
}

/// Parses the prefix of the names of access log files.
///
/// # Errors
/// The value contains other characters, or `.` or `..` as a part.
pub fn log_prefix(text: &str) -> Result<Arc<str>, InvalidValue> {
    let is_part = |part: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.=".contains(&byte);
        part != "." && part != ".." && part.bytes().all(is_plain)
    };
    let text = text.trim_matches('/');
    let fits = text.len() <= NAME_BYTES_MAX && text.split('/').all(is_part);
    fits.then(|| text.into())
        .ok_or_else(|| InvalidValue::expected("letters, digits, slashes and -_.=, without . and .. as parts"))
}

/// Parses the name of an S3 bucket: 3 to 63 lower-case letters, digits, dots and hyphens.
///
/// # Errors
/// The value has another form.
pub fn bucket(text: &str) -> Result<Arc<str>, InvalidValue> {
    let is_inner =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    let fits = (3..=63).contains(&text.len())
        && text.bytes().all(is_inner)
        && !text.starts_with('.')
        && !text.contains("..");
    fits.then(|| text.into()).ok_or_else(|| {
        InvalidValue::expected("a bucket's name, of 3 to 63 small letters, digits, dots and hyphens")
    })
}

/// Parses HTTP statuses separated by commas: numbers, ranges such as `200-399`, wildcards such as `2??` and
/// `http_2xx`.
///
/// # Errors
/// An element has another form or is not between 100 and 599.
pub fn statuses(text: &str) -> Result<Vec<(u16, u16)>, InvalidValue> {
    let status =
        |text: &str| -> Option<u16> { text.parse().ok().filter(|status| (100..=599).contains(status)) };
    let one = |part: &str| -> Option<(u16, u16)> {
        let part = part.trim();
        let wild = part.strip_prefix("http_").unwrap_or(part);
        if let Some(hundreds) = wild.strip_suffix("xx").or_else(|| wild.strip_suffix("??")) {
            let first = status(&format!("{hundreds}00"))?;
            return Some((first, first + 99));
        }
        match part.split_once('-') {
            None => status(part).map(|status| (status, status)),
            Some((first, last)) => {
                let (first, last) = (status(first)?, status(last)?);
                (first <= last).then_some((first, last))
            }
        }
    };
    let ranges: Option<Vec<(u16, u16)>> = text.split(',').map(one).collect();
    ranges.ok_or_else(|| InvalidValue::expected("statuses from 100 to 599, such as 200-299,404"))
}

/// Pairs `key=value` separated by commas; a key without `=` has an empty value.
pub fn pairs(text: &str) -> BTreeMap<String, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            (key.trim().to_owned(), value.trim().to_owned())
        })
        .collect()
}

/// Parses a label selector for nodes, from `key=value` pairs separated by commas.
///
/// # Errors
/// A key or value is not valid in a label, or there are too many.
pub fn node_labels(text: &str) -> Result<LabelSelector, InvalidValue> {
    let pairs = pairs(text).into_iter();
    let selector: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
    selector_of(
        &selector.join(","),
        "labels of nodes as key=value, separated by commas",
    )
}

/// Parses a label selector for nodes, in the syntax of `kubectl --selector`.
///
/// # Errors
/// The value is not a selector, or has too many requirements.
pub fn node_selector(text: &str) -> Result<LabelSelector, InvalidValue> {
    selector_of(text, "a selector of nodes such as role=edge or zone in (a, b)")
}

fn selector_of(text: &str, expected: &'static str) -> Result<LabelSelector, InvalidValue> {
    let selector = LabelSelector::parse(text).map_err(|_| InvalidValue::expected(expected))?;
    let requirements = selector.requirements().iter();
    let terms: usize = requirements.map(|requirement| 1 + requirement.values.len()).sum();
    if terms > SELECTOR_TERMS_MAX {
        let expected = format!("{expected}, with at most {SELECTOR_TERMS_MAX} keys and values");
        return Err(InvalidValue::expected(expected));
    }
    Ok(selector)
}

#[cfg(test)]
mod tests;

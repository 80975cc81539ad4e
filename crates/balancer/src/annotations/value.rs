//! How values of annotations are written. Every function returns what the value may be where it means nothing.

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

/// Longest path or host of a health check: what goes into a request.
const PATH_BYTES_MAX: usize = 1_024;
/// Most source ranges of one annotation.
const RANGES_MAX: usize = 1_000;
/// Longest name of a host, a cookie or a bucket's prefix.
const NAME_BYTES_MAX: usize = 253;

/// A port of a Service, by name or number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortRef {
    /// By number.
    Number(u16),
    /// By name.
    Name(String),
}

impl PortRef {
    /// Whether `port` is the one.
    pub fn is(&self, port: &ServicePort) -> bool {
        match self {
            Self::Number(number) => port.port == *number,
            Self::Name(name) => port.name == *name,
        }
    }
}

/// Some ports of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortSet {
    /// All of them.
    All,
    /// These.
    Of(Vec<PortRef>),
}

impl PortSet {
    /// Whether `port` is one of them.
    pub fn has(&self, port: &ServicePort) -> bool {
        match self {
            Self::All => true,
            Self::Of(ports) => ports.iter().any(|one| one.is(port)),
        }
    }
}

/// `true` or `false`.
pub fn bool(text: &str) -> Result<bool, String> {
    word(text, &[("true", true), ("false", false)])
}

/// `on` or `off`.
pub fn on_off(text: &str) -> Result<bool, String> {
    word(text, &[("on", true), ("off", false)])
}

/// One of some words; upper and lower case are the same.
pub fn word<T: Clone>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
    found.map(|(_, value)| value.clone()).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        words.join(" or ")
    })
}

/// A whole number within bounds.
pub fn number(text: &str, bounds: RangeInclusive<u32>) -> Result<u32, String> {
    bounded(text, &bounds, "a number")
}

/// Seconds within bounds.
pub fn seconds(text: &str, bounds: RangeInclusive<u32>) -> Result<Duration, String> {
    Ok(Duration::from_secs(bounded(text, &bounds, "seconds")?.into()))
}

/// Minutes within bounds.
pub fn minutes(text: &str, bounds: RangeInclusive<u32>) -> Result<Duration, String> {
    let minutes: u64 = bounded(text, &bounds, "minutes")?.into();
    Ok(Duration::from_secs(minutes * 60))
}

/// Milliseconds within bounds.
pub fn milliseconds(text: &str, bounds: RangeInclusive<u32>) -> Result<Duration, String> {
    Ok(Duration::from_millis(
        bounded(text, &bounds, "milliseconds")?.into(),
    ))
}

/// Megabits a second within bounds, as bytes a second: of a million bits each, as networks count.
pub fn megabits_per_second(text: &str, bounds: RangeInclusive<u32>) -> Result<u64, String> {
    const MEGABIT_BYTES: u64 = 1_000_000 / 8;
    Ok(u64::from(bounded(text, &bounds, "Mbit/s")?) * MEGABIT_BYTES)
}

fn bounded(text: &str, bounds: &RangeInclusive<u32>, what: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| bounds.contains(number));
    number.ok_or_else(|| format!("{what} from {} to {}", bounds.start(), bounds.end()))
}

/// A span as `15s`, `1m30s` or `500ms`; a plain number is seconds. A day at most.
pub fn span(text: &str) -> Result<Duration, String> {
    const SPAN_MAX: Duration = Duration::from_secs(86_400);
    let allowed = || "a span of time up to 24h, such as 15s or 1m30s".to_owned();
    if let Ok(seconds) = text.parse::<u32>() {
        let span = Duration::from_secs(seconds.into());
        return Some(span).filter(|span| *span <= SPAN_MAX).ok_or_else(allowed);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(allowed)?;
        let number: u32 = rest[..digits].parse().map_err(|_| allowed())?;
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
            .ok_or_else(allowed)?;
        rest = &rest[unit.len()..];
        let part = length.checked_mul(number).ok_or_else(allowed)?;
        total = total
            .checked_add(part)
            .filter(|sum| *sum <= SPAN_MAX)
            .ok_or_else(allowed)?;
    }
    Some(total).filter(|span| !span.is_zero()).ok_or_else(allowed)
}

/// A port number.
pub fn port(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|port| *port != 0);
    number.ok_or_else(|| "a port number from 1 to 65535".to_owned())
}

/// A port, by name or number.
pub fn port_ref(text: &str) -> Result<PortRef, String> {
    let text = text.trim();
    if let Ok(number) = text.parse::<u16>()
        && number != 0
    {
        return Ok(PortRef::Number(number));
    }
    let is_name = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let is_name = is_name && text.bytes().any(|b| b.is_ascii_alphabetic());
    if is_name {
        return Ok(PortRef::Name(text.to_owned()));
    }
    Err("names or numbers of the Service's ports, separated by commas".to_owned())
}

/// Some ports: `*`, or names and numbers separated by commas.
pub fn ports(text: &str) -> Result<PortSet, String> {
    if text == "*" {
        return Ok(PortSet::All);
    }
    let ports: Result<Vec<PortRef>, String> = text.split(',').map(port_ref).collect();
    ports
        .map(PortSet::Of)
        .map_err(|_| "* or names or numbers of the Service's ports, separated by commas".to_owned())
}

/// Ranges of addresses, separated by commas; an address alone is a range of one.
pub fn ranges(text: &str) -> Result<Vec<IpNet>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let ranges: Option<Vec<IpNet>> = parts.take(RANGES_MAX + 1).map(range).collect();
    ranges
        .filter(|ranges| !ranges.is_empty() && ranges.len() <= RANGES_MAX)
        .ok_or_else(|| format!("up to {RANGES_MAX} ranges such as 192.0.2.0/24,2001:db8::/64"))
}

/// A range of addresses, or an address.
pub fn range(text: &str) -> Option<IpNet> {
    let one = |address: IpAddr| IpNet::from(address);
    text.parse::<IpNet>()
        .ok()
        .map(|range| range.trunc())
        .or_else(|| text.parse().ok().map(one))
}

/// Secrets with certificates, as [`edge_secret::parse`] reads them.
pub fn secrets(text: &str) -> Result<Vec<SecretName>, String> {
    edge_secret::parse(text).ok_or_else(|| {
        "Secrets of type kubernetes.io/tls separated by commas, each as name, namespace/name, or arn:…/name".to_owned()
    })
}

/// A path of a health check, with its query.
pub fn path(text: &str) -> Result<Arc<str>, String> {
    let fits =
        text.starts_with('/') && text.len() <= PATH_BYTES_MAX && text.bytes().all(|b| b.is_ascii_graphic());
    fits.then(|| text.into())
        .ok_or_else(|| "a path such as /healthz".to_owned())
}

/// A name of a host.
pub fn host(text: &str) -> Result<Arc<str>, String> {
    let is_part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b':' | b'[' | b']');
    let fits = !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(is_part);
    fits.then(|| text.into())
        .ok_or_else(|| "a host name such as www.example.com".to_owned())
}

/// A name that a status may tell (an RFC 1123 subdomain).
pub fn hostname(text: &str) -> Result<String, String> {
    let text = text.to_ascii_lowercase();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let is_end = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        bytes.len() <= 63
            && is_end(bytes.first())
            && is_end(bytes.last())
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
    };
    let fits =
        text.len() <= NAME_BYTES_MAX && text.split('.').all(is_label) && text.parse::<IpAddr>().is_err();
    fits.then_some(text)
        .ok_or_else(|| "a host name such as www.example.com".to_owned())
}

/// The name of a cookie (a token of RFC 9110, section 5.6.2).
pub fn cookie_name(text: &str) -> Result<Arc<str>, String> {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let fits = !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(is_token);
    fits.then(|| text.into())
        .ok_or_else(|| "a cookie's name, of letters, digits and !#$%&'*+-.^_`|~".to_owned())
}

/// What begins the names of an access log's files.
pub fn log_prefix(text: &str) -> Result<Arc<str>, String> {
    let is_part = |part: &str| {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.=".contains(&b);
        part != "." && part != ".." && part.bytes().all(is_plain)
    };
    let text = text.trim_matches('/');
    let fits = text.len() <= NAME_BYTES_MAX && text.split('/').all(is_part);
    fits.then(|| text.into())
        .ok_or_else(|| "letters, digits, slashes and -_.=, without . and .. as parts".to_owned())
}

/// The name of a bucket (of S3: 3 to 63 small letters, digits, dots and hyphens).
pub fn bucket(text: &str) -> Result<Arc<str>, String> {
    let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    let fits = (3..=63).contains(&text.len())
        && text.bytes().all(is_inner)
        && !text.starts_with('.')
        && !text.contains("..");
    fits.then(|| text.into())
        .ok_or_else(|| "a bucket's name, of 3 to 63 small letters, digits, dots and hyphens".to_owned())
}

/// Statuses of HTTP separated by commas: numbers, ranges as `200-399`, or with wildcards, as `2??` and `http_2xx`.
pub fn statuses(text: &str) -> Result<Vec<(u16, u16)>, String> {
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
    ranges.ok_or_else(|| "statuses from 100 to 599, such as 200-299,404".to_owned())
}

/// Pairs `key=value` separated by commas; a key alone has the value "".
pub fn pairs(text: &str) -> BTreeMap<String, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            (key.trim().to_owned(), value.trim().to_owned())
        })
        .collect()
}

/// Labels that a node must have: `key=value` separated by commas.
pub fn node_labels(text: &str) -> Result<LabelSelector, String> {
    let pairs = pairs(text).into_iter();
    let selector: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
    LabelSelector::parse(&selector.join(","))
        .map_err(|_| "labels of nodes as key=value, separated by commas".to_owned())
}

/// A selector of nodes as `kubectl` takes it.
pub fn node_selector(text: &str) -> Result<LabelSelector, String> {
    LabelSelector::parse(text)
        .map_err(|_| "a selector of nodes such as role=edge or zone in (a, b)".to_owned())
}

//! Content of a PKCS #10 request (RFC 2986).

use std::net::IpAddr;

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;

const BLOCK: &str = "CERTIFICATE REQUEST";

/// Error of an unreadable request. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Not one PEM block of type CERTIFICATE REQUEST.
    #[error("PEM block type must be CERTIFICATE REQUEST")]
    Pem,
    /// Not a structure of RFC 2986.
    #[error("expected a certificate request (PKCS #10) in the PEM block")]
    Der,
    /// Invalid signature: the sender does not have the key.
    #[error("expected a signature by the key in the request")]
    Signature,
}

/// Subject and names of a request whose signature is valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Common names of the subject.
    pub common_names: Vec<String>,
    /// Organizations of the subject.
    pub organizations: Vec<String>,
    /// Requested host names.
    pub dns_names: Vec<String>,
    /// Requested IP addresses.
    pub ip_addresses: Vec<IpAddr>,
    /// True if the request contains names of other types, such as URIs or mail addresses.
    pub has_other_names: bool,
}

impl Request {
    /// Parses a request in PEM and checks its signature.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn parse(pem: &[u8]) -> Result<Self, RequestError> {
        let block = Pem::iter_from_buffer(pem)
            .next()
            .and_then(Result::ok)
            .filter(|block| block.label == BLOCK)
            .ok_or(RequestError::Pem)?;
        let (_, parsed) =
            X509CertificationRequest::from_der(&block.contents).map_err(|_| RequestError::Der)?;
        parsed.verify_signature().map_err(|_| RequestError::Signature)?;
        let subject = &parsed.certification_request_info.subject;
        let mut request = Self {
            common_names: texts(subject.iter_common_name())?,
            organizations: texts(subject.iter_organization())?,
            ..Self::default()
        };
        for extension in parsed.requested_extensions().into_iter().flatten() {
            if let ParsedExtension::SubjectAlternativeName(names) = extension {
                names.general_names.iter().for_each(|name| request.add_name(name));
            }
        }
        Ok(request)
    }

    /// Returns the common name; `None` if the request has no common name or more than one.
    pub fn common_name(&self) -> Option<&str> {
        match self.common_names.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }

    /// Returns the Node name of an agent: the subject is `system:node:NAME` with the only organization `system:nodes`.
    pub fn node_name(&self) -> Option<&str> {
        let name = self.common_name()?.strip_prefix(super::NODE_USER_PREFIX)?;
        (self.organizations == [super::NODES] && !name.is_empty()).then_some(name)
    }

    /// Returns true if the request contains no names in addition to the subject.
    pub fn has_no_names(&self) -> bool {
        self.dns_names.is_empty() && self.ip_addresses.is_empty() && !self.has_other_names
    }

    fn add_name(&mut self, name: &GeneralName<'_>) {
        match name {
            GeneralName::DNSName(name) => self.dns_names.push((*name).to_owned()),
            GeneralName::IPAddress(bytes) => match address(bytes) {
                Some(address) => self.ip_addresses.push(address),
                None => self.has_other_names = true,
            },
            _ => self.has_other_names = true,
        }
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

fn texts<'a>(
    values: impl Iterator<Item = &'a x509_parser::x509::AttributeTypeAndValue<'a>>,
) -> Result<Vec<String>, RequestError> {
    values
        .map(|value| value.as_str().map(str::to_owned).map_err(|_| RequestError::Der))
        .collect()
}

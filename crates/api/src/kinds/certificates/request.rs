//! What a PKCS #10 request (RFC 2986) asks for.

use std::net::IpAddr;

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;

const BLOCK: &str = "CERTIFICATE REQUEST";

/// Why a request cannot be read. No retry mends it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Not one PEM block of the right type.
    #[error("PEM block type must be CERTIFICATE REQUEST")]
    Pem,
    /// Not the structure of RFC 2986.
    #[error("the PEM block holds no certificate request that can be read")]
    Der,
    /// The sender does not have the key.
    #[error("the request is not signed with the key that it is for")]
    Signature,
}

/// The subject and the names of a request. Its signature has been checked: who sent it has the key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The common names of the subject.
    pub common_names: Vec<String>,
    /// The organizations of the subject.
    pub organizations: Vec<String>,
    /// Host names that the certificate is to be good for.
    pub dns_names: Vec<String>,
    /// Addresses that it is to be good for.
    pub ip_addresses: Vec<IpAddr>,
    /// Whether there are names of other forms: of people, URIs …
    pub has_other_names: bool,
}

impl Request {
    /// Reads a request in PEM.
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
                names.general_names.iter().for_each(|name| request.take(name));
            }
        }
        Ok(request)
    }

    /// The one common name; `None` if there are none or several.
    pub fn common_name(&self) -> Option<&str> {
        match self.common_names.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }

    /// The Node whose agent the subject names: `system:node:NAME`, a member of `system:nodes` and of nothing else.
    pub fn node_name(&self) -> Option<&str> {
        let name = self.common_name()?.strip_prefix(super::NODE_USER_PREFIX)?;
        (self.organizations == [super::NODES] && !name.is_empty()).then_some(name)
    }

    /// Whether it asks for no names beside the subject's.
    pub fn has_no_names(&self) -> bool {
        self.dns_names.is_empty() && self.ip_addresses.is_empty() && !self.has_other_names
    }

    fn take(&mut self, name: &GeneralName<'_>) {
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

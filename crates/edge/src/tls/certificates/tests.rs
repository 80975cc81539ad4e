use rcgen::{CertificateParams, KeyPair};

use super::*;

fn certificate(source: &str, names: &[&str]) -> Arc<Certificate> {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(names).expect("names");
    let signed = params.self_signed(&key).expect("a certificate");
    Arc::new(Certificate {
        source: source.into(),
        chain_pem: signed.pem().into_bytes(),
        key_pem: key.serialize_pem().into_bytes(),
    })
}

fn chosen(certificates: &Certificates, name: Option<&str>) -> String {
    let first = certificates.of(name).next().expect("a certificate");
    first.source.to_string()
}

#[test]
fn a_name_finds_its_certificate() {
    let settings = [
        certificate("default", &["example.org"]),
        certificate("wild", &["*.example.com"]),
        certificate("exact", &["shop.example.com", "other.test"]),
    ];
    let (certificates, faults) = Certificates::load(&settings, None);
    let certificates = certificates.expect("they can be used");
    assert_eq!(faults, []);
    let cases = [
        (None, "default"),
        (Some("example.org"), "default"),
        (Some("unknown.test"), "default"),
        (Some("a.example.com"), "wild"),
        (Some("A.Example.COM"), "wild"),
        (Some("a.b.example.com"), "default"),
        (Some("example.com"), "default"),
        (Some("shop.example.com"), "exact"),
        (Some("other.test"), "exact"),
    ];
    for (name, expected) in cases {
        assert_eq!(chosen(&certificates, name), expected, "{name:?}");
    }
}

#[test]
fn what_cannot_be_used_is_told_and_its_former_one_goes_on() {
    let good = certificate("shop/tls", &["shop.test"]);
    let (former, _) = Certificates::load(std::slice::from_ref(&good), None);
    let other = certificate("other", &["other.test"]);
    let mixed = Arc::new(Certificate {
        source: "shop/tls".into(),
        chain_pem: good.chain_pem.clone(),
        key_pem: other.key_pem.clone(),
    });
    let (now, faults) = Certificates::load(std::slice::from_ref(&mixed), former.as_ref());
    assert_eq!(
        chosen(&now.expect("the former one"), Some("shop.test")),
        "shop/tls"
    );
    let [Fault::BadCertificate { source_name, why }] = &faults[..] else {
        panic!("{faults:?}");
    };
    assert_eq!(&**source_name, "shop/tls");
    assert!(
        why.starts_with("tls.key is not the key of the first certificate"),
        "{why}"
    );
    let (none, faults) = Certificates::load(&[mixed], None);
    assert!(none.is_none() && faults.len() == 1);
}

#[test]
fn each_kind_of_fault_has_its_words() {
    let good = certificate("c", &["a.test"]);
    let with = |chain: &[u8], key: &[u8]| Certificate {
        source: "c".into(),
        chain_pem: chain.to_vec(),
        key_pem: key.to_vec(),
    };
    let cases = [
        (with(b"", &good.key_pem), "tls.crt holds no certificate"),
        (with(&good.chain_pem, b"x"), "tls.key is no private key in PEM"),
        (
            with(
                b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                &good.key_pem,
            ),
            "the first certificate in tls.crt cannot be read",
        ),
    ];
    for (certificate, expected) in cases {
        let why = read(&certificate).expect_err("it cannot be used").to_string();
        assert!(why.starts_with(expected), "{why}");
    }
}

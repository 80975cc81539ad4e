use rcgen::{CertificateParams, KeyPair};

use super::*;

fn certificate(source: &str, names: &[&str]) -> Arc<Certificate> {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(names).expect("names");
    let signed = params.self_signed(&key).expect("a certificate");
    Arc::new(Certificate::new(
        source.into(),
        signed.pem().into_bytes(),
        key.serialize_pem().into_bytes(),
    ))
}

fn chosen(certificates: &Certificates, name: Option<&str>) -> String {
    let first = certificates.matching(name).next().expect("a certificate");
    first.source.to_string()
}

#[test]
fn selects_the_certificate_of_a_name() {
    let settings = [
        certificate("default", &["example.org"]),
        certificate("wild", &["*.example.com"]),
        certificate("exact", &["shop.example.com", "other.test"]),
    ];
    let (certificates, faults) = Certificates::load(&settings, None, None);
    let certificates = certificates.expect("valid certificates");
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
fn hosts_select_certificates_by_source_and_others_have_none() {
    let settings = [
        certificate("a/one", &["one.test", "two.test"]),
        certificate("b/two", &["two.test"]),
    ];
    let hosts = HostCertificates::from([
        ("one.test".into(), Some("a/one".into())),
        ("*.two.test".into(), Some("b/two".into())),
        ("other.two.test".into(), None),
        ("missing.test".into(), Some("c/missing".into())),
    ]);
    let (certificates, _) = Certificates::load(&settings, Some(&hosts), None);
    let certificates = certificates.expect("valid certificates");
    assert_eq!(chosen(&certificates, Some("one.test")), "a/one");
    assert_eq!(chosen(&certificates, Some("x.two.test")), "b/two");
    let without = ["two.test", "other.two.test", "missing.test", "other.test"];
    for name in without.map(Some).into_iter().chain([None]) {
        assert_eq!(certificates.matching(name).count(), 0, "{name:?}");
    }
}

#[test]
fn invalid_certificate_is_a_fault_and_keeps_the_former_one() {
    let valid = certificate("shop/tls", &["shop.test"]);
    let (former, _) = Certificates::load(std::slice::from_ref(&valid), None, None);
    let other = certificate("other", &["other.test"]);
    let mixed = Arc::new(Certificate::new(
        "shop/tls".into(),
        valid.chain_pem.clone(),
        other.key_pem.clone(),
    ));
    let (now, faults) = Certificates::load(std::slice::from_ref(&mixed), None, former.as_ref());
    assert_eq!(
        chosen(&now.expect("the former certificate"), Some("shop.test")),
        "shop/tls"
    );
    let [Fault::InvalidCertificate { source_name, reason }] = &faults[..] else {
        panic!("{faults:?}");
    };
    assert_eq!(&**source_name, "shop/tls");
    assert!(
        reason.starts_with("tls.key does not belong to the first certificate"),
        "{reason}"
    );
    assert_eq!(certificate_fault(&valid), None);
    assert_eq!(certificate_fault(&mixed).as_ref(), Some(reason));
    let (none, faults) = Certificates::load(&[mixed], None, None);
    assert!(none.is_none() && faults.len() == 1);
}

#[test]
fn certificate_defects_have_distinct_messages() {
    let valid = certificate("c", &["a.test"]);
    let with = |chain: &[u8], key: &[u8]| Certificate::new("c".into(), chain.to_vec(), key.to_vec());
    let cases = [
        (
            with(b"", &valid.key_pem),
            "tls.crt: expected a certificate, found none",
        ),
        (
            with(&valid.chain_pem, b"x"),
            "tls.key: expected a private key in PEM",
        ),
        (
            with(
                b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                &valid.key_pem,
            ),
            "tls.crt: the first certificate is invalid",
        ),
    ];
    for (certificate, expected) in cases {
        let reason = certificate_fault(&certificate).expect("an invalid certificate");
        assert!(reason.starts_with(expected), "{reason}");
    }
}

#[test]
fn reports_the_expiration_of_each_certificate() {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(["shop.test".to_owned()]).expect("names");
    params.not_after = rcgen::date_time_ymd(2040, 1, 2);
    let signed = params.self_signed(&key).expect("a certificate");
    let certificate = Arc::new(Certificate::new(
        "shop/tls".into(),
        signed.pem().into_bytes(),
        key.serialize_pem().into_bytes(),
    ));
    let (certificates, faults) = Certificates::load(&[certificate], None, None);
    assert_eq!(faults, []);
    let certificates = certificates.expect("a valid certificate");
    let expirations: Vec<(&str, i64)> = certificates.expirations().collect();
    assert_eq!(expirations, [("shop/tls", 2_209_075_200)]);
}

/// Otherwise, a large certificate takes its memory and time once for each of the 256 ports of a Service.
#[test]
fn ports_share_their_certificates() {
    let names: Vec<String> = (0..1_000).map(|number| format!("n{number}.test")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let settings = vec![certificate("shop/tls", &names); 2];
    let [first, second] = [(); 2].map(|()| {
        let (certificates, _) = Certificates::load(&settings, None, None);
        certificates.expect("a valid certificate")
    });
    let all = first.loaded.iter().chain(&second.loaded);
    assert!(all.clone().all(|loaded| Arc::ptr_eq(loaded, &first.loaded[0])));
    assert_eq!(chosen(&second, Some("n999.test")), "shop/tls");
    assert_eq!(all.count(), 4);
}

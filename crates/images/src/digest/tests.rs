use super::*;

const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[test]
fn digest_of_content_has_the_published_value() {
    assert_eq!(Digest::sha256(b"").to_string(), EMPTY);
    let mut hasher = DigestHasher::new(Algorithm::Sha512);
    hasher.update(b"a");
    hasher.update(b"bc");
    let digest = hasher.finish();
    // FIPS 180-2, appendix C.1.
    assert!(
        digest
            .to_string()
            .starts_with("sha512:ddaf35a193617abacc417349ae204131")
    );
    assert!(digest.matches(b"abc"));
    assert!(!digest.matches(b"abd"));
}

#[test]
fn digest_round_trips_through_text_and_file_name() {
    let digest: Digest = EMPTY.parse().expect("a digest");
    assert_eq!(digest.to_string(), EMPTY);
    assert_eq!(Digest::from_file_name(&digest.file_name()), Some(digest));
}

#[test]
fn rejects_malformed_digests() {
    for (text, error) in [
        ("", DigestError::Form),
        ("sha256", DigestError::Form),
        ("md5:d41d8cd98f00b204e9800998ecf8427e", DigestError::Algorithm),
        ("SHA256:00", DigestError::Algorithm),
        (
            "sha256:../../etc/passwd",
            DigestError::Hash {
                algorithm: Algorithm::Sha256,
            },
        ),
        (
            "sha512:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            DigestError::Hash {
                algorithm: Algorithm::Sha512,
            },
        ),
        (
            "sha256:E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
            DigestError::Hash {
                algorithm: Algorithm::Sha256,
            },
        ),
    ] {
        assert_eq!(text.parse::<Digest>(), Err(error), "{text}");
    }
}

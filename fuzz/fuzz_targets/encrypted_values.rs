//! Encryption configurations and stored values: a value that decrypts is encrypted and decrypted again.
#![no_main]

use libfuzzer_sys::fuzz_target;

const CONFIGURATION: &[u8] = b"apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: ['*.*']
  providers:
  - aescbc: {keys: [{name: a, secret: MDEyMzQ1Njc4OWFiY2RlZg==}]}
  - aesgcm: {keys: [{name: a, secret: MDEyMzQ1Njc4OWFiY2RlZg==}]}
  - secretbox: {keys: [{name: a, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}
  - identity: {}
";

fuzz_target!(|input: &[u8]| {
    // The first byte selects the configuration or the value as input.
    match input.split_first() {
        Some((choice, rest)) if choice & 1 == 0 => apiserver::fuzzing::encrypted_value(rest, rest.to_vec().into()),
        Some((_, stored)) => apiserver::fuzzing::encrypted_value(CONFIGURATION, stored.to_vec().into()),
        None => {}
    }
});

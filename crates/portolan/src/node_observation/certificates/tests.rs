use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair};

use super::*;

fn pem(name: &str) -> String {
    let mut parameters = CertificateParams::new(Vec::new()).expect("parameters");
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.not_after = rcgen::date_time_ymd(2030, 1, 2);
    let key = KeyPair::generate().expect("a key");
    parameters.self_signed(&key).expect("a certificate").pem()
}

#[test]
fn certificates_of_files_and_kubeconfigs_are_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let both = format!("{}{}", pem("system:node:a"), pem("authority"));
    fs::write(path("a.crt"), &both).expect("a file");
    fs::write(path("b.key"), pem("no certificate file")).expect("a file");
    let data = STANDARD.encode(pem("inline"));
    let kubeconfig = format!(
        "users:\n- name: a\n  user: {{client-certificate-data: {data}}}\n- name: b\n  user: {{client-certificate: a.crt}}\n- name: c\n  user: {{token: x}}\n"
    );
    fs::write(path("c.conf"), kubeconfig).expect("a file");
    let found: Vec<Certificate> = files(directory.path())
        .expect("files")
        .iter()
        .flat_map(|file| certificates_of_text(file, &fs::read(file).expect("a file"), &read_bounded))
        .collect();
    let described: Vec<(String, &str, &str)> = found
        .iter()
        .map(|certificate| {
            let path = Path::new(&certificate.path).file_name().expect("a name");
            let subject = certificate.subject.as_deref().expect("a subject");
            (
                path.to_string_lossy().into_owned(),
                subject,
                certificate.expires.as_deref().expect("a time"),
            )
        })
        .collect();
    let expires = "2030-01-02T00:00:00Z";
    assert_eq!(
        described,
        [
            ("a.crt".to_owned(), "CN=system:node:a", expires),
            ("c.conf".to_owned(), "CN=inline", expires),
            ("a.crt".to_owned(), "CN=system:node:a", expires),
        ]
    );
}

#[test]
fn damaged_files_have_no_certificates() {
    let path = Path::new("/a/b.conf");
    for text in [
        &b""[..],
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        b"users: 1",
        b"users: [{user: {client-certificate-data: '!'}}]",
        b"users: [{user: {client-certificate: /does/not/exist}}]",
        b"\xff\xfe",
    ] {
        assert!(
            certificates_of_text(path, text, &read_bounded).is_empty(),
            "{text:?}"
        );
    }
}

#[test]
fn directories_of_running_processes_are_searched() {
    let process = |arguments: &[&str]| Process {
        id: 7,
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        ..Process::default()
    };
    let processes = [
        process(&["portolan", "up", "--data-dir=/srv/portolan"]),
        process(&["kubelet", "--kubeconfig=/etc/kubernetes/kubelet.conf"]),
        process(&["cat", "--kubeconfig=/etc/passwd"]),
    ];
    let processes: Vec<&Process> = processes.iter().collect();
    let directories = portolan_directories(&processes);
    assert!(directories.contains(&PathBuf::from("/srv/portolan/pki")));
    assert!(directories.contains(&PathBuf::from("/var/lib/portolan/join")));
    let found = kubeconfigs(&processes);
    let expected = PathBuf::from("/etc/kubernetes/kubelet.conf");
    assert_eq!(found, [(processes[1], expected)]);
}

#[test]
fn files_that_are_not_regular_are_not_opened() {
    // The open of a terminal or of a FIFO would have an effect, or never end.
    for path in ["/dev/null", "/dev", "/does/not/exist"] {
        assert!(read_bounded(Path::new(path)).is_err(), "{path}");
    }
    let own = Process {
        id: std::process::id(),
        ..Process::default()
    };
    assert!(own.open("/dev/null").is_err() && own.open("/proc/self/exe").is_err());
}

/// A Pod can run thousands of processes with the arguments of a component.
#[test]
fn arguments_of_processes_in_pods_name_no_files() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("pki")).expect("a directory");
    let file = directory.path().join("pki/a.crt");
    fs::write(&file, pem("system:node:a")).expect("a file");
    let flag = format!("--data-dir={}", directory.path().display());
    let process = |namespace: u64| Process {
        id: 7,
        arguments: ["portolan", "up", &flag].map(str::to_owned).to_vec(),
        namespace: Some(namespace),
        ..Process::default()
    };
    let is_read = |process: Process| {
        let (found, _) = read(&[process], 1);
        let path = file.display().to_string();
        found.iter().any(|certificate| certificate.path == path)
    };
    assert!(is_read(process(1)));
    assert!(!is_read(process(2)));
}

#[test]
fn number_of_named_files_is_bounded() {
    let process = |number: usize| Process {
        id: 7,
        arguments: vec![
            "portolan".to_owned(),
            format!("--data-dir=/srv/{number}"),
            format!("--kubeconfig=/srv/{number}/a.conf"),
        ],
        ..Process::default()
    };
    let processes: Vec<Process> = (0..1_000).map(process).collect();
    let processes: Vec<&Process> = processes.iter().collect();
    assert_eq!(kubeconfigs(&processes).len(), NAMED_MAX);
    let directories = portolan_directories(&processes);
    assert_eq!(directories.len(), (NAMED_MAX + 1) * PORTOLAN_DIRECTORIES.len());
    assert!(directories.contains(&PathBuf::from("/var/lib/portolan/pki")));
}

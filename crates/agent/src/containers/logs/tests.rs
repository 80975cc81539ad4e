use std::fs;

use super::*;
use crate::containers::{Containers, TrackedContainer};
use crate::object::RestartPolicy;
use crate::pods::state_directory::Record;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

/// Pod `web` whose container `a` has restarted once and may be running.
fn pod(root: &std::path::Path, is_running: bool) -> (StateDirectory, PodDirectory) {
    let state = StateDirectory::open(root).unwrap();
    let directory = state.pod("u1").unwrap();
    let record = Record {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        uid: "u1".to_owned(),
        ..Record::default()
    };
    directory.create(&record).unwrap();
    let tracked = vec![
        TrackedContainer::new("a", 1, at(0)),
        TrackedContainer::new("b", 0, at(0)),
    ];
    let mut containers = Containers::new(String::new(), RestartPolicy::Always, vec![], tracked);
    if is_running {
        containers.mark_started("a", at(0));
    }
    directory.write_checkpoint(&containers.checkpoint()).unwrap();
    (state, directory)
}

fn read_all(state: &StateDirectory, options: &Options) -> String {
    let log = find(state, "shop", "web", "a", options.previous).unwrap();
    let mut output = Vec::new();
    read(&log, options, |line| {
        output.extend(line);
        Ok(())
    })
    .unwrap();
    String::from_utf8(output).unwrap()
}

fn entry(second: i64, tag: char, text: &str) -> String {
    format!("{:.9} stdout {tag} {text}\n", at(second))
}

#[test]
fn parses_parameters_and_rejects_invalid_values() {
    let parse = |pairs: &[(&str, &str)]| {
        let query = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        Options::parse(&query, at(100))
    };
    let all = parse(&[
        ("follow", "true"),
        ("tailLines", "3"),
        ("sinceSeconds", "10"),
        ("limitBytes", "7"),
    ]);
    let expected = Options {
        follow: true,
        tail_lines: Some(3),
        since: Some(at(90)),
        limit_bytes: Some(7),
        ..Options::default()
    };
    assert_eq!(all, Ok(expected));
    let time = at(5).to_string();
    assert_eq!(parse(&[("sinceTime", &time)]).unwrap().since, Some(at(5)));
    assert_eq!(
        parse(&[("follow", ""), ("previous", "false")]),
        Ok(Options::default())
    );
    for (name, value) in [
        ("follow", "x"),
        ("tailLines", "-1"),
        ("sinceTime", "noon"),
        ("limitBytes", "1k"),
        ("stream", "stderr"),
    ] {
        assert!(parse(&[(name, value)]).is_err(), "{name}={value}");
    }
    assert!(parse(&[("sinceSeconds", "99999999999999")]).is_ok());
    let stderr = parse(&[("stream", "Stderr"), ("limitBytes", "1")]).unwrap();
    assert_eq!(stderr.stream, LogStream::Stderr);
    assert_eq!(
        parse(&[("stream", "Stdout"), ("tailLines", "1")]),
        Err(LogError::TailOfStream)
    );
    assert!(parse(&[("stream", "All"), ("tailLines", "1")]).is_ok());
}

#[test]
fn selects_the_lines_of_one_stream() {
    let root = tempfile::tempdir().unwrap();
    let (state, directory) = pod(root.path(), false);
    let path = directory.log("a", 1);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let of_error = entry(2, 'F', "fault").replace(" stdout ", " stderr ");
    fs::write(
        &path,
        entry(1, 'F', "one") + &entry(2, 'P', "tw") + &of_error + &entry(3, 'F', "o"),
    )
    .unwrap();
    let with = |stream| {
        read_all(
            &state,
            &Options {
                stream,
                ..Options::default()
            },
        )
    };
    assert_eq!(with(LogStream::Stdout), "one\ntwo\n");
    assert_eq!(with(LogStream::Stderr), "fault\n");
    // The order is that of the entries, as upstream.
    assert_eq!(with(LogStream::All), "one\ntwfault\no\n");
}

#[test]
fn reads_rotated_files_in_order() {
    let root = tempfile::tempdir().unwrap();
    let (state, directory) = pod(root.path(), false);
    let path = directory.log("a", 1);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(
        crate::sandbox::older_log(&path, 1),
        entry(1, 'F', "one") + &entry(2, 'P', "tw"),
    )
    .unwrap();
    fs::write(
        &path,
        entry(2, 'F', "o") + "broken\n" + &entry(3, 'F', "") + &entry(4, 'F', "four 4") + "2023",
    )
    .unwrap();
    fs::write(directory.log("a", 0), entry(0, 'F', "before")).unwrap();
    let with = |change: fn(&mut Options)| {
        let mut options = Options::default();
        change(&mut options);
        read_all(&state, &options)
    };
    assert_eq!(with(|_| {}), "one\ntwo\n\nfour 4\n");
    assert_eq!(with(|options| options.previous = true), "before\n");
    assert_eq!(with(|options| options.tail_lines = Some(2)), "\nfour 4\n");
    assert_eq!(with(|options| options.tail_lines = Some(0)), "");
    assert_eq!(
        with(|options| options.tail_lines = Some(99)),
        "one\ntwo\n\nfour 4\n"
    );
    assert_eq!(with(|options| options.since = Some(at(3))), "\nfour 4\n");
    assert_eq!(with(|options| options.limit_bytes = Some(6)), "one\ntw");
    // Following ends at once for a container that does not run.
    assert_eq!(
        with(|options| (options.follow, options.tail_lines) = (true, Some(1))),
        "four 4\n"
    );
    let stamped = with(|options| (options.timestamps, options.tail_lines) = (true, Some(3)));
    assert_eq!(stamped.lines().next(), Some("2023-11-14T22:13:22.000000000Z two"));
}

#[test]
fn reports_missing_logs() {
    let root = tempfile::tempdir().unwrap();
    let (state, _) = pod(root.path(), true);
    let message = |pod: &str, container: &str, previous| {
        find(&state, "shop", pod, container, previous)
            .unwrap_err()
            .to_string()
    };
    assert!(message("other", "a", false).contains("not found on this node"));
    assert_eq!(
        message("web", "a", false),
        "container \"a\" in pod \"web\" is waiting to start: ContainerCreating"
    );
    assert_eq!(
        message("web", "b", true),
        "previous terminated container \"b\" in pod \"web\" not found"
    );
}

#[test]
fn following_survives_rotation_and_ends_with_the_container() {
    let root = tempfile::tempdir().unwrap();
    let (state, directory) = pod(root.path(), true);
    let path = directory.log("a", 1);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, entry(1, 'F', "one")).unwrap();
    let log = find(&state, "shop", "web", "a", false).unwrap();
    let options = Options {
        follow: true,
        ..Options::default()
    };
    let mut output = Vec::new();
    read(&log, &options, |line| {
        // Each line triggers the next step.
        match line.as_slice() {
            b"one\n" => {
                fs::rename(&path, crate::sandbox::older_log(&path, 1)).unwrap();
                fs::write(&path, entry(2, 'F', "two")).unwrap();
            }
            b"two\n" => {
                let terminated = Containers::new(
                    String::new(),
                    RestartPolicy::Always,
                    vec![],
                    vec![TrackedContainer::new("a", 2, at(0))],
                );
                fs::write(&path, entry(2, 'F', "two") + &entry(3, 'F', "three")).unwrap();
                directory.write_checkpoint(&terminated.checkpoint()).unwrap();
            }
            _ => {}
        }
        output.extend(line);
        Ok(())
    })
    .unwrap();
    assert_eq!(String::from_utf8(output).unwrap(), "one\ntwo\nthree\n");
}

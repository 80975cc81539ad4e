//! Stop signals by name or number, as images and `lifecycle.stopSignal` have them.

use rustix::process::Signal;

use crate::object::Container;

#[cfg(test)]
mod tests;

/// Names without `SIG`.
const NAMES: [(&str, Signal); 34] = [
    ("ABRT", Signal::ABORT),
    ("ALRM", Signal::ALARM),
    ("BUS", Signal::BUS),
    ("CHLD", Signal::CHILD),
    ("CLD", Signal::CHILD),
    ("CONT", Signal::CONT),
    ("FPE", Signal::FPE),
    ("HUP", Signal::HUP),
    ("ILL", Signal::ILL),
    ("INT", Signal::INT),
    ("IO", Signal::IO),
    ("IOT", Signal::ABORT),
    ("KILL", Signal::KILL),
    ("PIPE", Signal::PIPE),
    ("POLL", Signal::IO),
    ("PROF", Signal::PROF),
    ("PWR", Signal::POWER),
    ("QUIT", Signal::QUIT),
    ("SEGV", Signal::SEGV),
    ("STKFLT", Signal::STKFLT),
    ("STOP", Signal::STOP),
    ("SYS", Signal::SYS),
    ("TERM", Signal::TERM),
    ("TRAP", Signal::TRAP),
    ("TSTP", Signal::TSTP),
    ("TTIN", Signal::TTIN),
    ("TTOU", Signal::TTOU),
    ("URG", Signal::URG),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("VTALRM", Signal::VTALARM),
    ("WINCH", Signal::WINCH),
    ("XCPU", Signal::XCPU),
    ("XFSZ", Signal::XFSZ),
];
/// Highest distance to the first signal in real time in a name of the API.
const REAL_TIME_DISTANCE_MAX: i32 = 15;

/// Returns the name of a signal in the API, such as `SIGQUIT` or `SIGRTMIN+3`.
pub(crate) fn name(signal: Signal) -> String {
    if let Some((name, _)) = NAMES.iter().find(|(_, known)| *known == signal) {
        return format!("SIG{name}");
    }
    let raw = signal.as_raw();
    let (above, below) = (raw - libc::SIGRTMIN(), libc::SIGRTMAX() - raw);
    match (above, below) {
        (0, _) => "SIGRTMIN".to_owned(),
        (_, 0) => "SIGRTMAX".to_owned(),
        (above, _) if above <= REAL_TIME_DISTANCE_MAX => format!("SIGRTMIN+{above}"),
        (_, below) => format!("SIGRTMAX-{below}"),
    }
}

/// Returns the stop signal of a container: its own, or else that of its image, or else SIGTERM.
pub(crate) fn of_container(container: Option<&Container>, of_image: Option<&str>) -> Signal {
    let lifecycle = container.and_then(|container| container.lifecycle.as_ref());
    let own = lifecycle.and_then(|lifecycle| lifecycle.stop_signal.as_deref());
    own.or(of_image).and_then(parse).unwrap_or(Signal::TERM)
}

/// Parses `SIGQUIT`, `QUIT`, `3`, `SIGRTMIN+3` or `SIGRTMAX-1`. Returns `None` for another text.
pub(crate) fn parse(text: &str) -> Option<Signal> {
    let upper = text.trim().to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some((_, signal)) = NAMES.iter().find(|(known, _)| *known == name) {
        return Some(*signal);
    }
    if let Ok(number) = name.parse::<i32>() {
        return Signal::from_named_raw(number).or_else(|| realtime_signal(number));
    }
    let distance = |rest: &str, sign: char| match rest {
        "" => Some(0),
        _ => rest.strip_prefix(sign)?.parse::<i32>().ok(),
    };
    if let Some(rest) = name.strip_prefix("RTMIN") {
        return realtime_signal(libc::SIGRTMIN().checked_add(distance(rest, '+')?)?);
    }
    realtime_signal(libc::SIGRTMAX().checked_sub(distance(name.strip_prefix("RTMAX")?, '-')?)?)
}

fn realtime_signal(number: i32) -> Option<Signal> {
    if !(libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&number) {
        return None;
    }
    // SAFETY: the C library reserves the signals below SIGRTMIN, which are not in the range.
    Some(unsafe { Signal::from_raw_unchecked(number) })
}

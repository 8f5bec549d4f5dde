//! The state of processes, read from `/proc`.

use std::fs;

/// Returns whether the process runs, and is no zombie.
pub(crate) fn is_running(pid: u32) -> bool {
    !matches!(state(pid), Some('Z' | 'X') | None)
}

/// The letter of the process's state, such as `T` for stopped.
pub(crate) fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in brackets, and may contain any character.
    stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next())
}

/// The arguments and environment of this process and all its descendants.
pub(crate) fn family(pid: u32) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    let mut wanted = vec![pid];
    while let Some(pid) = wanted.pop() {
        let read = |what| {
            let bytes = fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        found.push((pid, format!("{} | {}", read("cmdline"), read("environ"))));
        wanted.extend(children(pid));
    }
    found
}

pub(crate) fn children(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    children.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// The short name of a process, and the first of its arguments.
pub(crate) fn name(pid: u32) -> (String, String) {
    let read = |what| fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let arguments = read("cmdline");
    let first = arguments.split('\0').next().unwrap_or_default().to_owned();
    (read("comm").trim().to_owned(), first)
}

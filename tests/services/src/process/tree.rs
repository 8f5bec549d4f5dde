//! The machine's process table.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

/// All descendants of a process.
pub(super) fn descendants(root: u32) -> Result<Vec<u32>> {
    let table = table()?;
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(table.iter().filter(|entry| entry.parent == parent).map(|entry| entry.pid));
        next += 1;
    }
    found.remove(0);
    Ok(found)
}

/// Returns true if none of the processes exists. Zombies do not count.
pub(super) fn all_ended(pids: &[u32]) -> Result<bool> {
    Ok(table()?.iter().all(|entry| entry.ended() || !pids.contains(&entry.pid)))
}

/// Returns true if none of the processes runs: each has stopped or ended. A signal takes some time.
pub(super) fn all_stopped(pids: &[u32]) -> Result<bool> {
    Ok(table()?.iter().all(|entry| entry.stopped() || entry.ended() || !pids.contains(&entry.pid)))
}

struct Entry {
    pid: u32,
    parent: u32,
    state: char,
}

impl Entry {
    fn ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    fn stopped(&self) -> bool {
        self.state == 'T'
    }

    /// From a line "pid parent state".
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_whitespace();
        Some(Self {
            pid: fields.next()?.parse().ok()?,
            parent: fields.next()?.parse().ok()?,
            state: fields.next()?.chars().next()?,
        })
    }
}

fn table() -> Result<Vec<Entry>> {
    // A minimal Debian has no `ps`, and macOS has no /proc.
    if !Path::new("/proc/self/stat").exists() {
        let output = Command::new("ps").args(["-A", "-o", "pid=,ppid=,stat="]).output()?;
        return Ok(String::from_utf8(output.stdout)?.lines().filter_map(Entry::parse).collect());
    }
    let mut entries = Vec::new();
    for process in fs::read_dir("/proc")? {
        // A process may end between the listing and the reading.
        if let Ok(stat) = fs::read_to_string(process?.path().join("stat")) {
            entries.extend(from_stat(&stat));
        }
    }
    Ok(entries)
}

/// From "pid (name) state parent …". The name may contain any character.
fn from_stat(stat: &str) -> Option<Entry> {
    let (pid, _) = stat.split_once(' ')?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let (state, rest) = rest.split_once(' ')?;
    let (parent, _) = rest.split_once(' ')?;
    Entry::parse(&format!("{pid} {parent} {state}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_process_with_a_name_made_to_confuse() {
        let entry = from_stat("12 (a) S 1 (b) Z 7 12 12 0 -1").unwrap();
        assert_eq!((entry.pid, entry.parent, entry.state), (12, 7, 'Z'));
        assert!(entry.ended());
    }

    #[test]
    fn finds_a_child_and_sees_it_end() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(descendants(std::process::id()).unwrap().contains(&child.id()));
        assert!(!all_ended(&[child.id()]).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(all_ended(&[child.id()]).unwrap());
    }
}

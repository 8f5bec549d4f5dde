//! Free ports that stay free until their server listens on them.
//!
//! Port 0 would give an ephemeral port of the kernel, which is a trap for a server that is stopped and restarted on
//! its port: meanwhile any outgoing connection may get the number as its source port, and a client that reconnects in
//! a loop can even connect to itself. So ports are taken from below the ephemeral range (32768 and up on Linux, 49152
//! and up elsewhere).

use std::collections::HashMap;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use rustix::fs::{FlockOperation, flock};

/// A port on 127.0.0.1 without a listener, which no other process with this function has.
///
/// The claim holds until this process ends. Each claimed port is a locked file, because tests of several packages may
/// run at the same time.
pub fn free() -> Result<u16> {
    let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = std::env::temp_dir()
        .join(format!("syncguard-ports-{}", rustix::process::geteuid().as_raw()));
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;

    // Processes start their search in different places, so they rarely meet.
    let offset = std::process::id() % u32::from(COUNT);
    for step in 0..COUNT {
        let index = (u64::from(offset) * 97 + u64::from(step)) % u64::from(COUNT);
        let port = FIRST + u16::try_from(index)?;
        if claimed.contains_key(&port) {
            continue;
        }
        let lock = File::create(folder.join(port.to_string()))?;
        let ours = flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        // A listener of our own, to try the port, would also be open in a child that starts at this moment.
        if ours && !is_served(port) {
            claimed.insert(port, lock);
            return Ok(port);
        }
    }
    bail!("no free port between {FIRST} and {} on 127.0.0.1", FIRST + COUNT)
}

/// Returns whether a program listens on this port of 127.0.0.1, which costs less than to ask it with a client.
pub(crate) fn is_served(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// A claimed port, with the lock that shows the claim to other processes.
static CLAIMED: LazyLock<Mutex<HashMap<u16, File>>> = LazyLock::new(Mutex::default);

/// A node of a Redis cluster talks to the others on the port that is higher by 10 000.
const FIRST: u16 = 12_000;
const COUNT: u16 = 10_000;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn hands_out_no_port_twice() {
        let threads: Vec<_> = (0..4)
            .map(|_| thread::spawn(|| (0..25).map(|_| free().unwrap()).collect::<Vec<_>>()))
            .collect();
        let ports: Vec<u16> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
        assert_eq!(ports.iter().collect::<HashSet<_>>().len(), 100);
    }

    #[test]
    fn a_port_that_somebody_listens_on_is_in_use() {
        let port = free().unwrap();
        assert!(!is_served(port));
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(is_served(port));
    }
}

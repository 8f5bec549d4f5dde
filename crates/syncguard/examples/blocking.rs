//! A program without a runtime: a report that at most one machine writes, with calls that block.
//!
//! ```console
//! $ cargo run -p syncguard --features blocking,sqlite --example blocking -- sqlite:locks.db
//! ```
//!
//! In two terminals, the second one waits for the first. The words `fail` and `panic` after the URL show that the lock is
//! free nevertheless when the program has ended.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::time::Duration;
use std::{env, process, thread};

use syncguard::blocking::{self, Locks};
use syncguard::{AutoExtend, Held, LockConfig};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let argument = |number: usize| arguments.get(number).map(String::as_str);
    let locks = blocking::connect(argument(0).unwrap_or("memory:"))?;
    report(&locks, argument(1).unwrap_or_default())
}

fn report(locks: &Locks, ends: &str) -> Result<(), Box<dyn Error>> {
    let config = LockConfig::new("report")
        .with_ttl(Duration::from_secs(30)) // the others wait for this long after a crash
        .with_auto_extend(AutoExtend::new())
        .with_wait_up_to(Duration::from_secs(60));
    // The first `?` is for the lock, the second for the work.
    locks.lock(config, |held| write_the_report(&held, ends))??;
    println!("{} has released the lock", process::id());
    Ok(())
}

/// Runs on this thread, while another one renews the lock.
fn write_the_report(held: &Held, ends: &str) -> Result<(), Box<dyn Error>> {
    for page in 1..=5 {
        if held.is_lost() {
            return Err("the lock is lost: somebody else writes the report".into());
        }
        println!("{} writes page {page} under fence {}", process::id(), held.fence());
        thread::sleep(Duration::from_millis(100)); // … compute …
        match ends {
            "fail" => return Err("no more paper".into()),
            "panic" => panic!("no more ink"),
            _ => {}
        }
    }
    Ok(())
}

//! Locks between processes without a server, in a file.
//!
//! `cargo run -p syncguard --features sqlite --example processes` starts three processes that want
//! the same job, and kills one of them while it works. To see it by hand, run this in two
//! terminals:
//!
//! ```text
//! cargo run -p syncguard --features sqlite --example processes -- locks.db
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use syncguard::sqlite::SqliteBackend;
use syncguard::{AcquisitionOptions, AutoExtend, LockConfig, lock};
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => three_processes(),
        [file] => work(Path::new(file), "this process", Duration::from_secs(5)).await,
        [file, name, millis] => {
            work(Path::new(file), name, Duration::from_millis(millis.parse()?)).await
        }
        _ => Err("processes [FILE]".into()),
    }
}

/// One process, which waits for its turn and works for a while.
async fn work(file: &Path, name: &str, duration: Duration) -> Result<(), Box<dyn Error>> {
    let backend = SqliteBackend::open(file).await?;
    let patient = AcquisitionOptions::new()
        .with_max_retries(1000)
        .with_retry_delay(Duration::from_millis(20))
        .with_timeout(Duration::from_secs(60));
    let job = LockConfig::new("job")
        .with_ttl(Duration::from_secs(3)) // its lock outlives a crash by this and one second
        .with_auto_extend(AutoExtend::new())
        .with_acquisition(patient);
    println!("   {name} waits for its turn");
    lock(&backend, job, async |held| {
        println!("   {name} works     fence {}", held.fence());
        sleep(duration).await;
    })
    .await?;
    println!("   {name} is done");
    Ok(())
}

/// Kills the first process while it works. Its lock ends by itself, and the other processes go on.
fn three_processes() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("syncguard-processes-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("locks.db");
    println!("Three processes, one job, one file");
    let start = |name: &str, millis: u32, stdout: Stdio| {
        Command::new(std::env::current_exe()?)
            .arg(&file)
            .args([name, &millis.to_string()])
            .stdout(stdout)
            .spawn()
    };
    let mut doomed = start("ann", 60_000, Stdio::piped())?;
    wait_until_it_works(&mut doomed)?;
    let others = [start("bob", 300, Stdio::inherit())?, start("cat", 300, Stdio::inherit())?];
    std::thread::sleep(Duration::from_millis(500));
    println!("   ann is killed; her lock ends in 4 s at most");
    doomed.kill()?;
    doomed.wait()?;
    for mut other in others {
        if !other.wait()?.success() {
            return Err("a process failed".into());
        }
    }
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

fn wait_until_it_works(process: &mut Child) -> Result<(), Box<dyn Error>> {
    let said = process.stdout.take().ok_or("no output")?;
    for line in BufReader::new(said).lines() {
        let line = line?;
        println!("{line}");
        if line.contains(" works ") {
            return Ok(());
        }
    }
    Err("it has ended".into())
}

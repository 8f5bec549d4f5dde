//! Faults of the file, its disk and its other users while a program has it open.

use std::fs;
use std::io::{BufRead as _, BufReader, Lines};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::pin::pin;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, getuid, kill_process};
use syncguard_sqlite::contract::{
    AcquireRequest, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard_sqlite::{
    ErrorCode, LockBackend as _, LockConfig, LockId, LossReason, SqliteBackend, SqliteOptions,
    Synchronous, acquire,
};
use syncguard_tests::calls::all_at_once;
use syncguard_tests::polling::poll_times;

use crate::sqlite::support::{File, HOUR, MINUTE, on_a_small_disk, take, worker};

/// Another process that keeps all others from writing.
struct KeptOut {
    process: Child,
    stdin: Option<ChildStdin>,
    said: Lines<BufReader<ChildStdout>>,
}

impl KeptOut {
    /// The process has exclusive access from now on.
    fn start(file: &File) -> Result<Self> {
        let mut process = Command::new(worker())
            .arg("keep-out")
            .arg(file.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = process.stdin.take();
        let mut said = BufReader::new(process.stdout.take().context("a pipe")?).lines();
        ensure!(said.next().context("nothing was said")?? == "in");
        Ok(Self { process, stdin, said })
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let process = Pid::from_raw(self.process.id().cast_signed()).context("a process")?;
        Ok(kill_process(process, signal)?)
    }

    fn leave(mut self) -> Result<()> {
        drop(self.stdin.take());
        ensure!(self.said.next().context("nothing was said")?? == "out");
        ensure!(self.process.wait()?.success());
        Ok(())
    }
}

impl Drop for KeptOut {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Every operation, and the code of its error.
async fn all_fail(backend: &SqliteBackend, expected: ErrorCode, says: &str) -> Result<()> {
    let results = all_at_once(backend, "key", LockId::generate()?).await;
    for (number, result) in results.into_iter().enumerate() {
        let error = result.err().with_context(|| format!("operation {number} was answered"))?;
        ensure!(error.code() == expected && error.message().contains(says), "{number}: {error}");
    }
    Ok(())
}

/// A process is stopped in a transaction: the others get an error within their timeout, none of their writes was
/// carried out, and reads are answered meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_stopped_while_it_writes_delays_others_no_longer_than_their_timeout()
-> Result<()> {
    const TIMEOUT: Duration = Duration::from_secs(3);
    const SLACK: Duration = Duration::from_secs(20);
    let file = File::new();
    // The limits are for the other process, and not for the disk.
    let options = || SqliteOptions::new().with_synchronous(Synchronous::Normal);
    let patient = file.open_with(options().with_operation_timeout(10 * MINUTE)).await;
    let backend = file.open_with(options().with_operation_timeout(TIMEOUT)).await;
    let held = take(&patient, "held").await;
    let mut fence = 0;
    for ends_by in [Signal::CONT, Signal::KILL] {
        let writer = KeptOut::start(&file)?;
        writer.signal(Signal::STOP)?;
        let (acquire, release, extend) = (
            AcquireRequest::new("free", HOUR)?,
            ReleaseRequest::new(held.lock_id),
            ExtendRequest::new(held.lock_id, 2 * HOUR)?,
        );
        let started = Instant::now();
        let (acquired, released, extended) = tokio::join!(
            backend.acquire(acquire),
            backend.release(release),
            backend.extend(extend)
        );
        ensure!(started.elapsed() < TIMEOUT + SLACK, "it took {:?}", started.elapsed());
        for error in [acquired.err(), released.err(), extended.err()] {
            let error = error.context("it was answered")?;
            ensure!(error.code() == ErrorCode::ServiceUnavailable, "{error}");
            ensure!(error.message().contains("kept the lock file locked"), "{error}");
            ensure!(!error.is_outcome_unknown() && error.is_retryable(), "{error:?}");
        }
        // Contention and reads are answered, also while others wait.
        let mut waiting = pin!(patient.acquire(AcquireRequest::new("free", HOUR)?));
        ensure!(poll_times(&mut waiting, 1).await.is_none());
        let request = AcquireRequest::new("held", HOUR)?;
        ensure!(patient.acquire(request).await?.is_busy());
        ensure!(patient.is_locked(IsLockedRequest::new("held")?).await?);
        ensure!(patient.lookup(LookupRequest::by_key("held")?).await?.is_some());
        ensure!(!patient.is_locked(IsLockedRequest::new("free")?).await?);
        ensure!(poll_times(&mut waiting, 1).await.is_none());

        writer.signal(ends_by)?;
        if ends_by == Signal::CONT {
            writer.leave()?;
        }
        // No other write was carried out, no data was lost, and half-done writes are gone.
        let lock = waiting.await?.acquired().context("a late acquire")?;
        fence += 1;
        ensure!(lock.fence.get() == fence, "a late acquire has used a fence up");
        ensure!(patient.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
        let found = patient.lookup(LookupRequest::by_lock_id(held.lock_id)).await?;
        ensure!(found.context("the lock")?.expires_at == held.expires_at);
        let half: i64 = file.raw().query_row(
            "SELECT count(*) FROM fences WHERE key = 'half done'",
            (),
            |row| row.get(0),
        )?;
        ensure!(half == 0);
    }
    Ok(())
}

/// Opening has a limit as well, and reports the reason.
#[tokio::test]
async fn a_file_that_another_program_keeps_to_itself_is_not_opened() -> Result<()> {
    let file = File::new();
    drop(file.open().await);
    file.until_closed()?;
    let raw = file.raw();
    raw.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; DELETE FROM locks")?;
    let options = SqliteOptions::new().with_operation_timeout(Duration::from_millis(200));
    let started = Instant::now();
    let error = SqliteBackend::open_with(file.path(), options).await.expect_err("it is busy");
    ensure!(error.code() == ErrorCode::ServiceUnavailable, "{error}");
    ensure!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    Ok(())
}

/// One of the three files is deleted, replaced or renamed: no operation is answered until the file is back.
#[tokio::test]
async fn a_file_that_is_deleted_or_replaced_grants_nothing_any_more() -> Result<()> {
    for victim in ["locks.db", "locks.db-wal", "locks.db-shm"] {
        for is_replaced in [false, true] {
            let file = File::new();
            let at = |name: &str| file.folder().join(name);
            let backend = file.open().await;
            let held = take(&backend, "held").await;
            let mut guard = acquire(&backend, LockConfig::new("guarded").with_ttl(HOUR)).await?;
            fs::rename(at(victim), at("elsewhere"))?;
            if is_replaced {
                fs::write(at(victim), "")?;
            }
            all_fail(&backend, ErrorCode::Internal, "deleted or replaced").await?;
            let error = guard.extend(HOUR).await.unwrap_err();
            ensure!(error.is_record_lost() && guard.is_lost(), "{error:?}");
            let _ = fs::remove_file(at(victim));
            fs::rename(at("elsewhere"), at(victim))?;
            ensure!(backend.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
        }
    }
    Ok(())
}

/// The file is in its place, without the tables.
#[tokio::test]
async fn tables_that_are_dropped_take_the_locks_with_them() -> Result<()> {
    let file = File::new();
    let backend = file.open().await;
    let mut guard = acquire(&backend, LockConfig::new("k").with_ttl(HOUR)).await?;
    let lost = guard.lost();
    file.raw().execute_batch("DROP TABLE locks")?;
    let error = guard.extend(HOUR).await.unwrap_err();
    ensure!(error.is_record_lost() && error.message().contains("dropped"), "{error:?}");
    ensure!(lost.await == LossReason::RecordLost);
    Ok(())
}

/// Other processes start with a new file; a process with the old file grants and releases nothing in it.
#[tokio::test]
async fn two_files_of_one_name_do_not_grant_one_lock_twice() -> Result<()> {
    let file = File::new();
    let before = file.open().await;
    let _ = take(&before, "key").await;
    for name in ["locks.db", "locks.db-wal", "locks.db-shm"] {
        fs::remove_file(file.folder().join(name))?;
    }
    let _ = take(&file.open().await, "key").await;
    all_fail(&before, ErrorCode::Internal, "start them again").await
}

#[test]
fn a_read_only_file_system_is_said() -> Result<()> {
    let said = on_a_small_disk(
        "$WORKER try $DISK/locks.db\nmount -o remount,ro \"$DISK\"\n$WORKER try $DISK/locks.db\n$WORKER try $DISK/new.db",
    )?;
    let [first, second, third] = said.lines().collect::<Vec<_>>()[..] else {
        anyhow::bail!("{said}");
    };
    ensure!(first == "fence 1", "{said}");
    ensure!(second.starts_with("error AuthFailed "), "{said}");
    ensure!(third.starts_with("error AuthFailed "), "{said}");
    Ok(())
}

/// A file that is mounted by itself has two names in two folders: no caller gets a lock under the mounted name.
#[test]
fn a_file_that_is_mounted_by_itself_is_refused() -> Result<()> {
    let said = on_a_small_disk(
        "cd $DISK
         mkdir host 'in a container' whole
         $WORKER try host/locks.db
         touch 'in a container/locks.db'
         mount --bind host/locks.db 'in a container/locks.db'
         $WORKER try 'in a container/locks.db'
         ln -s 'in a container/locks.db' link.db
         $WORKER try link.db
         $WORKER try host/locks.db
         mount --bind host whole
         $WORKER try whole/locks.db",
    )?;
    let said: Vec<_> = said.lines().collect();
    ensure!(said.len() == 5 && said[0] == "fence 1", "{said:?}");
    for refused in [said[1], said[2]] {
        ensure!(refused.starts_with("error InvalidArgument "), "{said:?}");
        ensure!(refused.contains("mount its folder instead"), "{said:?}");
    }
    ensure!(said[3] == "fence 2" && said[4] == "fence 3", "{said:?}");
    Ok(())
}

/// A process that has created a time namespace, and goes on without another program, does not know its own clock.
#[tokio::test]
async fn a_process_between_two_time_namespaces_is_refused() -> Result<()> {
    let file = File::new();
    let _held = take(&file.open().await, "key").await;
    let said = |options: &[&str], work| {
        let mut command = Command::new("unshare");
        command.args((!getuid().is_root()).then_some("--map-root-user")).args(options);
        let output = command.arg(worker()).arg(work).arg(file.path()).output()?;
        let mut said = String::from_utf8(output.stdout)?;
        said += &String::from_utf8(output.stderr)?;
        anyhow::Ok(said)
    };
    let between = said(&["--uts"], "between")?;
    ensure!(between.starts_with("error InvalidArgument "), "{between}");
    ensure!(between.contains("time namespace"), "{between}");
    // Another program in the new namespace knows its clock: a lock of one hour is held a day later.
    let inside = said(&["--time", "--boottime", "86400"], "try")?;
    ensure!(inside.contains("somebody else has it"), "{inside}");
    Ok(())
}

/// A user who may not read the file, may not write it, or may not write to its folder.
#[tokio::test]
async fn a_missing_permission_is_said() -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    const NOBODY: u32 = 65534;
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    let file = File::new();
    let _ = take(&file.open().await, "other").await;
    file.until_closed()?;
    // Root may do everything, so another user tries.
    let is_root = getuid().is_root();
    let program = file.folder().join("worker");
    // A child that another test starts at this moment would keep a copy of our own open, and busy.
    ensure!(Command::new("cp").arg(worker()).arg(&program).status()?.success());
    set(&program, 0o755)?;
    for (folder_mode, file_mode) in [(0o755, 0o600), (0o755, 0o644), (0o755, 0o666), (0o777, 0o644)]
    {
        let (for_folder, for_file) = if is_root {
            (folder_mode, file_mode)
        } else {
            // The same without rights for "others": this user is the owner.
            ((folder_mode & 7) << 6 | 0o500, (file_mode & 7) << 6)
        };
        set(file.folder(), for_folder)?;
        set(&file.path(), for_file)?;
        let mut command = Command::new(&program);
        command.arg("try").arg(file.path());
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        let said = String::from_utf8(command.output()?.stdout)?;
        ensure!(said.starts_with("error AuthFailed "), "{folder_mode:o} {file_mode:o}: {said}");
        set(file.folder(), 0o755)?;
        set(&file.path(), 0o600)?;
    }
    Ok(())
}

/// A forked child gets an error, and its parent goes on.
#[test]
fn a_fork_is_told() -> Result<()> {
    let file = File::new();
    let output = Command::new(worker()).arg("fork").arg(file.path()).output()?;
    let said = String::from_utf8(output.stdout)?;
    let [before, child, opens, child_blocks, parent, parent_blocks] =
        said.lines().collect::<Vec<_>>()[..]
    else {
        anyhow::bail!("{said}{}", String::from_utf8_lossy(&output.stderr));
    };
    ensure!(before == "before: fence 1", "{said}");
    ensure!(child.starts_with("child: error InvalidArgument this process was forked"), "{said}");
    ensure!(opens.starts_with("child opens: error InvalidArgument this process was"), "{said}");
    ensure!(child_blocks.contains("error InvalidArgument this process was forked after"), "{said}");
    ensure!([parent, parent_blocks] == ["parent: fence 2", "parent blocks: fence 1"], "{said}");
    Ok(())
}

//! The line of the guide, run by a cron daemon.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard_test_services::{install, tools, wait};

use crate::guide::{INSTALLED, shown};
use crate::harness::Harness;

/// Debian's cron, in namespaces of its own: it sees one crontab only, and other daemons do not see
/// its lock file. Dropping it ends it, with all that it has started.
struct Cron(Child);

impl Cron {
    /// Starts cron with this crontab for the current user.
    fn start(folder: &Path, crontab: &str) -> Result<Self> {
        let spool = folder.join("spool");
        fs::create_dir(&spool)?;
        let user = String::from_utf8(Command::new("id").arg("-un").output()?.stdout)?;
        let table = spool.join(user.trim());
        fs::write(&table, crontab)?;
        fs::set_permissions(&table, fs::Permissions::from_mode(0o600))?;
        let cron = install::require(&tools::CRON)?;
        let unshare = install::require(&tools::UNSHARE)?;
        // The machine's own tables are not run. The shell is the first process of its namespace,
        // and ends when the write end of its standard input is closed: under `sudo`, we may not
        // kill its processes.
        let script = "
            mount -t tmpfs none /run && mount --bind \"$1\" /var/spool/cron/crontabs &&
            mkdir /run/none && mount --bind /run/none /etc/cron.d && mount --bind /dev/null /etc/crontab &&
            { \"$2\" -f & } && read -r end";
        let mut command = if rustix::process::geteuid().is_root() {
            Command::new(unshare)
        } else {
            // Cron runs as root, the job as this user.
            let mut command = Command::new("sudo");
            command.arg("-n").arg(unshare);
            command
        };
        command.args(["--mount", "--fork", "--pid", "--mount-proc", "sh", "-ec", script, "cron"]);
        command.arg(&spool).arg(cron).stdin(Stdio::piped());
        command.stderr(File::create(folder.join("log"))?);
        Ok(Self(command.spawn().context("cron needs root, or sudo")?))
    }
}

impl Drop for Cron {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn cron_runs_the_line() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (harness, store) = (Harness::file()?, folder.path().join("store"));
    fs::write(&store, &harness.url)?;
    let printed = folder.path().join("printed");

    let mut crontab = fs::read_to_string(shown("nightly.cron"))?;
    for (shown, here) in [
        ("/etc/syncguard/store", store.display().to_string()),
        (INSTALLED, env!("CARGO_BIN_EXE_syncguard").to_owned()),
        // Every minute.
        ("15 3 * * *", "* * * * *".to_owned()),
    ] {
        ensure!(crontab.contains(shown), "{crontab}");
        crontab = crontab.replace(shown, &here);
    }
    let crontab = format!("{} >>{} 2>&1\n", crontab.trim_end(), printed.display());
    let mut cron = Cron::start(folder.path(), &crontab)?;
    let log = folder.path().join("log");
    let said = || fs::read_to_string(&log).unwrap_or_default();
    wait::until("the line of cron", Duration::from_secs(100), || {
        ensure!(cron.0.try_wait()?.is_none(), "cron does not run: {}", said());
        Ok(fs::read_to_string(&printed).is_ok_and(|printed| !printed.is_empty()))
    })
    .with_context(said)?;
    // Cron would mail any other output.
    ensure!(fs::read_to_string(&printed)? == "report\n");
    ensure!(
        harness.run(&["fence", "show", "nightly-report"])?.expect(0)?.stdout.starts_with("0000")
    );
    ensure!(!harness.is_free("nightly-report")?, "it is kept for some minutes");
    Ok(())
}

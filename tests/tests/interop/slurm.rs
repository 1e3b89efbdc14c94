//! Tests the guide's script with Debian's Slurm on this machine. In the job array, one task has a
//! temporary failure and requeues itself.

use crate::store_servers::free_port;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tensorferry_tests::Ferry;
use tensorferry_tests::ferry::{Outcome, run};
use tensorferry_tests::fixtures::case;
use tensorferry_tests::guide::Chapter;
use tensorferry_tests::workspace::workspace;

/// A Slurm cluster with one node. All its files are in one folder, and its daemons are stopped when
/// it is dropped.
struct Cluster {
    folder: tempfile::TempDir,
    daemons: Vec<Child>,
}

impl Cluster {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim().split('.').next().unwrap();
        let user = run(Command::new("id").arg("-un")).expect(0).stdout;
        let (user, [control, node]) = (user.trim(), [free_port(), free_port()]);
        let config = format!(
            "ClusterName=ferry\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={control}\nSlurmdPort={node}\n\
             SlurmUser={user}\nSlurmdUser={user}\nAuthType=auth/munge\nAuthInfo=socket={socket}\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nSlurmdParameters=config_overrides\n\
             StateSaveLocation={state}\nSlurmdSpoolDir={spool}\nSlurmctldPidFile={c}.pid\nSlurmdPidFile={d}.pid\n\
             SlurmctldLogFile={c}.log\nSlurmdLogFile={d}.log\nMailProg=/bin/true\nReturnToService=2\n\
             SchedulerParameters=sched_interval=1,batch_sched_delay=0\n\
             NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=2048\n\
             PartitionName=main Nodes=ALL Default=YES State=UP\n",
            socket = at("socket"),
            state = at("state"),
            spool = at("spool"),
            c = at("slurmctld"),
            d = at("slurmd"),
        );
        ["state", "spool", "cgroup"].iter().for_each(|name| std::fs::create_dir(at(name)).unwrap());
        std::fs::write(at("slurm.conf"), config).unwrap();
        // Versions before 23.02 cannot disable control groups, but do not use them with these
        // plugins.
        let version = run(Command::new(daemon("slurmd")).arg("-V")).expect(0).stdout;
        let number = version.trim().trim_start_matches(|c: char| !c.is_ascii_digit()).replace('.', "");
        let groups = if number.as_str() < "2302" {
            format!("CgroupPlugin=cgroup/v1\nCgroupMountpoint={}\n", at("cgroup"))
        } else {
            "CgroupPlugin=disabled\n".to_owned()
        };
        std::fs::write(at("cgroup.conf"), groups).unwrap();

        let mut cluster = Self { folder, daemons: Vec::new() };
        let path = |name: &str| cluster.folder.path().join(name);
        let (key, socket) = (path("key"), path("socket"));
        std::fs::write(&key, tensorferry_test_kit::random::bytes(128, 9)).unwrap();
        run(Command::new("chmod").arg("600").arg(&key)).expect(0);
        let mut munged = Command::new(daemon("munged"));
        munged.arg("--foreground").arg("--key-file").arg(&key).arg("--socket").arg(&socket);
        for (option, file) in
            [("--pid-file", "munged.pid"), ("--log-file", "munged.log"), ("--seed-file", "seed")]
        {
            munged.arg(option).arg(path(file));
        }
        cluster.add(&mut munged);
        until("munged listens", || socket.exists());
        for name in ["slurmctld", "slurmd"] {
            let config = cluster.folder.path().join("slurm.conf");
            cluster.add(Command::new(daemon(name)).arg("-D").arg("-f").arg(config));
        }
        until("the node is idle", || {
            cluster.says(&["sinfo", "--noheader", "--format=%T"]).stdout.trim() == "idle"
        });
        cluster
    }

    fn add(&mut self, command: &mut Command) {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.daemons.push(child.unwrap_or_else(|error| panic!("{command:?}: {error}")));
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.folder.path().join("slurm.conf"));
        command
    }

    fn says(&self, words: &[&str]) -> Outcome {
        run(self.command(words[0]).args(&words[1..]))
    }

    /// Returns the pending and running tasks, such as `7_2 PENDING BeginTime`.
    fn tasks(&self) -> Vec<String> {
        let queue = self.says(&["squeue", "--array", "--noheader", "--format=%i %T %r"]).expect(0).stdout;
        queue.lines().map(str::to_owned).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Returns the path of a daemon, which Debian installs outside the usual `PATH`.
fn daemon(name: &str) -> std::path::PathBuf {
    let path = Path::new("/usr/sbin").join(name);
    assert!(path.exists(), "this test needs {name}: apt-get install munge slurm-wlm");
    path
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_secs(60), "waited a minute until {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
#[ignore = "needs Debian's slurm-wlm and munge"]
fn the_guides_array_does_all_and_queues_what_passes_once_more() {
    let cluster = Cluster::start();
    let ferry = Ferry::on_disk();
    let chapter = Chapter::read("cluster.md");
    ferry.write("zoo.sbatch", chapter.file("zoo.sbatch"));
    // Disable retries of jobs, so that only a requeued task can succeed.
    ferry.write("zoo.toml", format!("[defaults]\nretries = 0\n\n{}", chapter.file("zoo.toml")));
    let model = case("torch", "zip_module_state_dict").input();
    for n in 1..=4 {
        ferry.write(&format!("models/{n}.bin"), std::fs::read(&model).unwrap());
    }
    let _ = run(&mut ferry.shell("ferry plan zoo.toml zoo.plan --piece-jobs 1")).expect(0);

    // The disk fails in the second task's first attempt.
    let program = workspace().program.display();
    let wrapper = format!(
        "#!/bin/sh\ncase $SLURM_ARRAY_TASK_ID,$SLURM_RESTART_COUNT in 2,) export FERRY_FAULT=copied=eio;; esac\n\
         exec {program} \"$@\"\n"
    );
    let wrapper = ferry.write("bin/ferry", wrapper);
    run(Command::new("chmod").arg("+x").arg(wrapper)).expect(0);
    let mut submit = ferry.shell("PATH=$PWD/bin:$PATH; sbatch --parsable zoo.sbatch");
    submit.env("SLURM_CONF", cluster.folder.path().join("slurm.conf"));
    let array = run(&mut submit).expect(0).stdout.trim().to_owned();

    let queued = format!("{array}_2 PENDING BeginTime");
    until("only the second task waits", || cluster.tasks() == [queued.as_str()]);
    // Slurm delays a requeued task by two minutes, which an administrator can change. The node
    // rejects a task that begins in the same second in which the previous attempt ended.
    let _ = cluster.says(&["scontrol", "update", &format!("JobId={array}_2"), "StartTime=now+3"]).expect(0);
    until("no task is left", || cluster.tasks().is_empty());

    let jobs = cluster.says(&["scontrol", "show", "job", "--oneliner"]).expect(0).stdout;
    for (task, restarts) in [(1, 0), (2, 1)] {
        let task = format!(" ArrayTaskId={task} ");
        let job = jobs.lines().find(|job| job.contains(&task)).unwrap_or_else(|| panic!("no{task}in {jobs}"));
        for fact in ["JobState=COMPLETED", "ExitCode=0:0", &format!("Restarts={restarts}")] {
            assert!(job.split_whitespace().any(|word| word == fact), "{fact}: {job}");
        }
    }
    for n in 1..=4 {
        assert!(ferry.equal(&ferry.at(format!("out/{n}.safetensors")), &model), "output {n}");
    }
    let _ = run(&mut ferry.shell("ferry run zoo.plan")).expect(0).prints(&["4 jobs: 4 unchanged"]);
}

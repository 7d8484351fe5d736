//! scratch
use std::time::Duration;
use runtime::ports::sandbox::*;
use adapters::sandbox::local::*;
use contract::*;
fn main() {
    launcher_entry();
    let rt = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    rt.block_on(async {
        let mut config = LocalSandboxConfig::new(std::env::var("DATA").unwrap_or("/tmp/sbx".into()));
        config.template_dir = std::env::var_os("TEMPLATE").map(Into::into);
        config.node_dir = std::env::var_os("NODE").map(Into::into);
        config.control_groups = std::env::var_os("NOCG").is_none();
        let t = std::time::Instant::now();
        let sb = LocalSandbox::new(config).await.unwrap();
        println!("new {:?}\n{:#?}", t.elapsed(), sb.report());
        let ws = sb.open(WorkspaceSpec { project: ProjectId::from_bits(5), epoch: 1 }).await.unwrap();
        let args: Vec<String> = std::env::args().skip(1).collect();
        if args.is_empty() { return; }
        let n: usize = std::env::var("N").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
        let mut times = vec![];
        for _ in 0..n {
        let spec = ExecSpec { command: args[0].clone(), args: args[1..].to_vec(), env: vec![], cwd: None, timeout: Duration::from_secs(20), limits: ResourceLimits::of(&Limits::default(), Purpose::Build), purpose: Purpose::Build, output: OutputLimits::total(1<<20) };
        let (tx, mut rx) = tokio::sync::mpsc::channel(64);
        let t = std::time::Instant::now();
        let (o, ()) = tokio::join!(ws.exec(spec, tx, Default::default()), async { while let Some(c) = rx.recv().await { if n==1 { print!("{}", String::from_utf8_lossy(&c.bytes)); } } });
        times.push(t.elapsed());
        if n==1 { println!("{:?} {:?}", o, t.elapsed()); }
        tokio::time::sleep(Duration::from_millis(30)).await;
        }
        times.sort(); if n>1 { println!("p50 {:?} min {:?} max {:?}", times[n/2], times[0], times[n-1]); }
        ws.close().await.unwrap();
    });
}

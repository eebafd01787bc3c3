//! WShard: one episode, a lane of values an entry.
//!
//! Specification: shard.md, section 5.3.

use std::collections::BTreeMap;

use serde_json::Value;

use super::tensor::{short_type, size_of};
use super::{Face, json, named_json};
use crate::Shard;
use nra_core::description::{Description, Elements, MAX_ROWS, known, product, shape};
use nra_core::error::Result;

/// Longest name in which a channel is looked for, bytes: names of channels may have slashes in them, and each may be the end of one.
const MAX_NAME: usize = 4 << 10;
/// What names of channels that are predicted begin with.
const SIGNAL: &str = "signal/";

/// What is said of the values of a channel.
struct Channel {
    dtype: String,
    /// Sizes of what belongs to one step.
    shape: Vec<u64>,
    modality: Option<String>,
}

impl Channel {
    fn new(value: &Value) -> Self {
        let dtype = json::word(&value["dtype"]).unwrap_or_default();
        Self {
            dtype: short_type(&dtype).to_owned(),
            shape: json::numbers(&value["shape"]).unwrap_or_default(),
            modality: json::word(&value["modality"]),
        }
    }

    /// Returns the bytes of one step.
    fn step(&self) -> Option<u64> {
        product(&self.shape)?.checked_mul(size_of(&self.dtype)?)
    }
}

/// What an entry of an episode is.
struct Lane {
    /// What it is for: `signal`.
    kind: &'static str,
    elements: Option<Elements>,
    modality: Option<String>,
    /// What is odd about it.
    problem: Option<String>,
}

/// What is said of an episode.
pub struct Episode {
    steps: Option<u64>,
    facts: Description,
    channels: BTreeMap<String, Channel>,
    /// Length of the longest name of a channel, bytes.
    longest: usize,
}

impl Episode {
    /// Reads the entries that describe the others.
    pub fn read(shard: &Shard, problems: &mut Vec<String>) -> Result<Self> {
        let whole = named_json(shard, "meta/wshard", true, problems)?;
        let episode = named_json(shard, "meta/episode", true, problems)?;
        let listed = named_json(shard, "meta/channels", true, problems)?;
        // Earlier writers have other keys.
        let either = |new: &str, old: &str| if episode[new].is_null() { episode[old].clone() } else { episode[new].clone() };
        let mut facts = Description::default();
        json::fact(&mut facts, "episode", &either("episode_id", "id"));
        json::fact(&mut facts, "environment", &episode["env_id"]);
        let steps = json::number(&either("length_T", "length_t"));
        facts.fact("steps", known(steps));
        let timebase = if episode["timebase"].is_null() { &whole["timebase"] } else { &episode["timebase"] };
        if let Some(time) = time(timebase) {
            facts.fact("time", time);
        }
        if let (Some(index), Some(total)) = (json::number(&episode["chunk_index"]), json::number(&episode["total_chunks"])) {
            facts.fact("chunk", format!("{} of {total}", index.saturating_add(1)));
        }
        if let Some([first, last]) = json::numbers(&episode["timestep_range"]).as_deref()
            && *last > 0
        {
            facts.fact("range", format!("{first} to {last}"));
        }
        json::fact(&mut facts, "metadata", &episode["metadata"]);
        for (key, label) in [("version", "version"), ("wshard_version", "version"), ("residual_edges", "edges")] {
            json::fact(&mut facts, label, &whole[key]);
        }
        let channels = channels(&listed);
        let longest = channels.keys().map(String::len).max().unwrap_or(0);
        Ok(Self { steps, facts, channels, longest })
    }

    /// Tells what an entry is; `None` for what is no lane.
    fn lane(&self, name: &str, len: u64) -> Option<Lane> {
        if !is_lane(name) {
            return None;
        }
        let (kind, rest) = name.split_once('/').unwrap_or((name, ""));
        let assumed = |dtype: &str, shape: &[u64]| Channel { dtype: dtype.to_owned(), shape: shape.to_vec(), modality: None };
        let (kind, channel) = match (kind, rest) {
            ("reward", _) => ("reward", Some(assumed("f32", &[]))),
            ("done", _) => ("end", Some(assumed("u8", &[]))),
            ("time", "ticks") => ("time", Some(assumed("i32", &[]))),
            ("time", _) => ("time", Some(assumed("i64", &[]))),
            ("signal" | "action", _) => {
                let kind = if kind == "signal" { "signal" } else { "action" };
                let listed = self.channels.get(name);
                match listed {
                    Some(channel) => {
                        (kind, Some(Channel { modality: channel.modality.clone(), ..assumed(&channel.dtype, &channel.shape) }))
                    }
                    None => {
                        let problem = Some("meta/channels does not list it".to_owned());
                        return Some(Lane { kind, elements: None, modality: None, problem });
                    }
                }
            }
            ("omen", _) if rest.starts_with("latent_action_codebook/") => ("codebook", Some(self.fitted("i32", len))),
            ("omen", _) => ("prediction", self.alike(rest, len)),
            ("uncert", _) => {
                ("uncertainty", self.alike(rest, len).or_else(|| self.steps_of(len, 4).map(|_| assumed("f32", &[]))))
            }
            ("residual", _) => return Some(self.residual(len)),
            ("aux", _) => ("auxiliary", None),
            _ => ("debug", None),
        };
        let modality = channel.as_ref().and_then(|channel| channel.modality.clone());
        let (mut elements, mut problem) = (None, None);
        if let Some(channel) = channel {
            let whole = |steps: u64| {
                let shape = [&[steps], channel.shape.as_slice()].concat();
                Elements { dtype: channel.dtype.clone(), shape }
            };
            match (channel.step(), self.steps) {
                (None, _) => problem = Some(format!("its type {} is not known", channel.dtype)),
                (Some(step), Some(steps)) => {
                    elements = Some(whole(steps));
                    let expected = step.checked_mul(steps);
                    if expected != Some(len) {
                        problem = Some(format!("{} bytes expected, {len} found", known(expected)));
                    }
                }
                (Some(step), None) => elements = len.checked_div(step).map(whole),
            }
        }
        Some(Lane { kind, elements, modality, problem })
    }

    /// Returns the type of the channel that a name begins with, if the length is that of such values.
    fn alike(&self, name: &str, len: u64) -> Option<Channel> {
        // The longest that fits is meant.
        let room = self.longest.checked_sub(SIGNAL.len()).filter(|_| name.len() <= MAX_NAME)?;
        let ends = name.match_indices('/').map(|(at, _)| at).take_while(|&end| end <= room).collect::<Vec<_>>();
        let mut key = format!("{SIGNAL}{}", &name[..ends.last().copied().unwrap_or(0)]);
        let found = ends.iter().rev().find_map(|&end| {
            key.truncate(SIGNAL.len() + end);
            self.channels.get(&key)
        });
        let channel =
            found.filter(|channel| channel.step().is_some_and(|step| step.checked_mul(self.steps.unwrap_or(0)) == Some(len)))?;
        Some(Channel { dtype: channel.dtype.clone(), shape: channel.shape.clone(), modality: None })
    }

    /// Returns a channel of this type with as many values a step as the length tells.
    fn fitted(&self, dtype: &str, len: u64) -> Channel {
        let size = size_of(dtype).unwrap_or(1);
        let values = self.steps.and_then(|steps| len.checked_div(steps.checked_mul(size)?)).unwrap_or(1);
        let shape = if values == 1 { Vec::new() } else { vec![values] };
        Channel { dtype: dtype.to_owned(), shape, modality: None }
    }

    /// Returns the number of steps if so many values of `size` bytes have this length.
    fn steps_of(&self, len: u64, size: u64) -> Option<u64> {
        self.steps.filter(|steps| steps.checked_mul(size) == Some(len))
    }

    /// A bit for each step and dimension.
    fn residual(&self, len: u64) -> Lane {
        let run = self.steps.map(|steps| steps.div_ceil(8)).filter(|run| *run > 0);
        let elements = run.zip(self.steps).filter(|(run, _)| len > 0 && len.is_multiple_of(*run)).map(|(run, steps)| {
            let runs = len / run;
            let shape = if runs == 1 { vec![steps] } else { vec![runs, steps] };
            Elements { dtype: "bit".to_owned(), shape }
        });
        Lane { kind: "residual", elements, modality: None, problem: None }
    }
}

/// Says whether an entry of this name is a lane.
fn is_lane(name: &str) -> bool {
    let (kind, rest) = name.split_once('/').unwrap_or((name, ""));
    match kind {
        "reward" | "done" => rest.is_empty(),
        "time" => matches!(rest, "ticks" | "timestamps_ns"),
        "signal" | "action" | "omen" | "uncert" | "residual" | "aux" | "debug" => true,
        _ => false,
    }
}

/// Reads the channels by the name of their entry: a list, or, earlier, an object.
fn channels(value: &Value) -> BTreeMap<String, Channel> {
    let list = value["channels"].as_array().into_iter().flatten();
    let list = list.filter_map(|channel| Some((json::word(&channel["signal_block"])?, Channel::new(channel))));
    let object = value.as_object().into_iter().flatten().filter(|(_, value)| value.is_object());
    let object = object.map(|(name, channel)| (name.clone(), Channel::new(channel)));
    list.chain(object).collect()
}

/// Says how steps follow each other.
fn time(value: &Value) -> Option<String> {
    let kind = json::word(&value["type"])?;
    let rate = value["tick_hz"].as_f64().filter(|rate| *rate > 0.0).map(|rate| format!("{rate} Hz"));
    let step = json::number(&value["dt_ns"]).map(|step| format!("{step} ns a step"));
    let how: Vec<String> = rate.into_iter().chain(step).collect();
    Some(if how.is_empty() { kind } else { format!("{kind}, {}", how.join(", ")) })
}

impl Face for Episode {
    fn describe(&self, shard: &Shard, number: usize) -> Result<Option<Description>> {
        let len = shard.entries()[number].content_len;
        let Ok(name) = std::str::from_utf8(shard.name(number)) else { return Ok(None) };
        let mut table = Description::new("WShard lane", &[]);
        let Some(lane) = self.lane(name, len) else {
            // One dialect does not give them a type.
            table.brief = "JSON".to_owned();
            return Ok(name.starts_with("meta/").then_some(table));
        };
        table.brief = lane.kind.to_owned();
        table.fact("lane", lane.kind);
        if let Some(elements) = lane.elements {
            table.array(elements);
        }
        if let Some(modality) = lane.modality {
            table.fact("modality", modality);
        }
        if let Some(problem) = lane.problem {
            table.brief = format!("{}, but {problem}", table.brief);
            table.fact("but", problem);
        }
        Ok(Some(table))
    }

    fn sum_up(&self, shard: &Shard, table: &mut Description) -> Result<()> {
        table.facts.clone_from(&self.facts.facts);
        table.heads = vec!["name", "lane", "type", "shape", "modality"];
        let mut problems = Vec::new();
        for (number, entry) in shard.entries().iter().enumerate() {
            let Ok(name) = std::str::from_utf8(shard.name(number)) else { continue };
            // Rows that are not kept are not looked at either.
            if table.rows.len() == MAX_ROWS {
                table.row_count += u64::from(is_lane(name));
                continue;
            }
            let Some(lane) = self.lane(name, entry.content_len) else { continue };
            let (dtype, sizes) = match &lane.elements {
                Some(elements) => (elements.dtype.clone(), shape(&elements.shape)),
                None => ("?".to_owned(), "?".to_owned()),
            };
            table.row(&[name, lane.kind, &dtype, &sizes, lane.modality.as_deref().unwrap_or_default()]);
            if let Some(problem) = lane.problem {
                problems.push(format!("{name}: {problem}"));
            }
        }
        if let Some(problem) = problems.first() {
            table.fact("but", problem.as_str());
        }
        if problems.len() > 1 {
            table.fact("but", format!("{} more lanes are odd", problems.len() - 1));
        }
        Ok(())
    }
}

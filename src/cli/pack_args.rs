//! Options for creating entries, shared by `pack`, `add` and `convert`.

use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::path::Path;

use clap::ValueEnum;

use crate::args::{FilterArgs, KeepArgs, MIN_MEMORY, ResourceArgs, parse_percent};
use crate::attributes::{self, Scope};
use crate::inputs;
use crate::report::{CommandResult, Failure};
use crate::ui::Ui;
use nra_convert::repair::{MEMORY_BYTES, protect};
use nra_convert::target::{LevelRequest, Target, Unsupported};
use nra_convert::{GivenOwner, MetadataPolicy, Options, OwnerPolicy, WalkSource};
use nra_format::Error;
use nra_format::codec::{Codec, Method};
use nra_format::entry::{Attribute, Timestamp};
use nra_format::limits::MAX_DICTIONARY;
use nra_format::nra::writer::{DictionaryPolicy, WriterOptions};
use nra_format::path::normal;

/// Level of `--fast`.
const FAST_LEVEL: i32 = 1;
/// Level of `--best`.
const BEST_LEVEL: i32 = 19;
/// Divisor of the memory limit for names that are sorted together, and the size of one name, bytes.
const NAMES_SHARE: u64 = 8;
const NAME_BYTES: u64 = 64;

/// How entries are created and stored.
#[derive(Debug, clap::Args)]
pub struct PackingArgs {
    /// Store all entries below PATH
    #[arg(long, visible_alias = "as", value_name = "PATH", hide_short_help = true)]
    prefix: Option<std::ffi::OsString>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Skip the content of directories with a CACHEDIR.TAG file
    #[arg(long, hide_short_help = true)]
    exclude_caches: bool,
    /// Do not cross file system boundaries
    #[arg(long, hide_short_help = true)]
    one_file_system: bool,
    /// Set the commit message
    #[arg(short, long, value_name = "TEXT", default_value = "", hide_default_value = true, hide_short_help = true)]
    message: String,
    /// Set an attribute of the archive; repeatable
    ///
    /// Standard names: name, description, licence, schema and embedding:ID. Any other name is
    /// allowed.
    #[arg(long, value_name = "NAME=VALUE", hide_short_help = true)]
    attr: Vec<std::ffi::OsString>,
    /// Set an attribute of every stored entry; repeatable
    ///
    /// NAME without a value is a tag. The standard name is media-type.
    #[arg(long, value_name = "NAME[=VALUE]", hide_short_help = true)]
    tag: Vec<std::ffi::OsString>,
    /// Set the media type of files that match GLOB: '*.jpg=image/jpeg'
    ///
    /// If the option is repeated, the last match applies.
    #[arg(long, value_name = "GLOB=TYPE", value_parser = parse_media_type, hide_short_help = true)]
    media_type: Vec<(Vec<u8>, Vec<u8>)>,
    #[command(flatten)]
    compression: CompressionArgs,
    #[command(flatten)]
    fidelity: FidelityArgs,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// Recovery data.
#[derive(Debug, clap::Args)]
pub struct RecoveryArgs {
    /// Add recovery data that can restore PERCENT of damage (see nra protect)
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, hide_short_help = true)]
    recovery: Option<u8>,
}

impl RecoveryArgs {
    /// Returns whether recovery data is requested.
    pub fn is_given(&self) -> bool {
        self.recovery.is_some()
    }

    /// Adds recovery data to the archive `output` and reports its size.
    /// On error, the archive itself stays complete.
    pub fn protect(&self, output: &Path, memory: Option<u64>, ui: &Ui) -> CommandResult<()> {
        let Some(percent) = self.recovery else { return Ok(()) };
        let progress = ui.progress("protecting");
        let done = protect(output, percent.into(), memory.unwrap_or(MEMORY_BYTES), &progress);
        drop(progress);
        let recovery = done?.summary();
        ui.console().note(&format!("added {} % recovery data ({})", recovery.percent, ui.size(recovery.bytes)));
        Ok(())
    }
}

/// How content is compressed.
#[derive(Debug, Default, clap::Args)]
pub struct CompressionArgs {
    /// Optimize for balanced, dense (size) or random (access)
    ///
    /// dense creates smaller archives. random makes reading single entries cheaper.
    #[arg(long, value_name = "NAME", value_enum, hide_possible_values = true)]
    preset: Option<Preset>,
    /// Set the compression level: 1 to 22 for zstd
    #[arg(short, long, value_name = "N", conflicts_with_all = ["fast", "best"])]
    pub level: Option<i32>,
    /// Optimize for speed: level 1
    #[arg(long, conflicts_with = "best")]
    fast: bool,
    /// Optimize for size: level 19, preset dense
    #[arg(long)]
    best: bool,
    /// Compress with zstd, lz4 or none
    ///
    /// Incompressible data is always stored uncompressed.
    #[arg(long, value_name = "NAME", value_enum, hide_possible_values = true, hide_short_help = true)]
    codec: Option<CodecName>,
    /// Use a dictionary for small blocks: auto, never or a zstd dictionary FILE
    #[arg(long, value_name = "WHAT", hide_short_help = true)]
    dict: Option<std::ffi::OsString>,
    /// Align uncompressed content to 16, 32, 64 or 4096 bytes
    #[arg(long, value_name = "BYTES", hide_short_help = true)]
    pub align: Option<u32>,
}

impl CompressionArgs {
    /// Returns whether any of these options is given.
    pub fn is_given(&self) -> bool {
        let Self { preset, level, fast, best, codec, dict, align } = self;
        preset.is_some() || level.is_some() || *fast || *best || codec.is_some() || dict.is_some() || align.is_some()
    }
}

/// Metadata recorded for each file.
#[derive(Debug, clap::Args)]
struct FidelityArgs {
    /// Create the same bytes from the same tree and options
    ///
    /// Omits owners, holes and the time of packing. Respects SOURCE_DATE_EPOCH.
    #[arg(long, hide_short_help = true)]
    reproducible: bool,
    /// Follow symlinks and store their targets
    #[arg(short = 'L', long, hide_short_help = true)]
    dereference: bool,
    #[command(flatten)]
    owner: OwnerArgs,
    #[command(flatten)]
    keep: KeepArgs,
}

/// Owner of entries.
#[derive(Debug, clap::Args)]
pub struct OwnerArgs {
    /// Record this owner for all entries: local names or numbers
    ///
    /// The syntax is that of chown: USER or :GROUP alone keeps the other one; USER: means the login group of USER. --reproducible omits owners, except this one.
    #[arg(long, value_name = "[USER][:GROUP]", value_parser = parse_owner, conflicts_with = "no_owner", hide_short_help = true)]
    owner: Option<GivenOwner>,
}

impl OwnerArgs {
    /// Returns how owners are recorded.
    pub fn policy(&self, keep: &KeepArgs) -> OwnerPolicy {
        match &self.owner {
            Some(owner) if keep.numeric_owner => OwnerPolicy::Given(nameless(owner)),
            Some(owner) => OwnerPolicy::Given(owner.clone()),
            None => keep.owner(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Preset {
    Balanced,
    Dense,
    Random,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CodecName {
    Zstd,
    Lz4,
    None,
}

impl CompressionArgs {
    /// Returns the requested codec.
    pub fn codec(&self) -> Option<Codec> {
        self.codec.map(|name| match name {
            CodecName::Zstd => Codec::Zstd,
            CodecName::Lz4 => Codec::Lz4,
            CodecName::None => Codec::None,
        })
    }

    /// Returns the names of the given options, without `--fast` and `--best`, which every format
    /// follows as far as it can.
    pub fn given(&self) -> impl Iterator<Item = &'static str> {
        let Self { preset, level, codec, dict, align, .. } = self;
        let options = [
            ("--preset", preset.is_some()),
            ("--level", level.is_some()),
            ("--codec", codec.is_some()),
            ("--dict", dict.is_some()),
            ("--align", align.is_some()),
        ];
        options.into_iter().filter_map(|(name, is_given)| is_given.then_some(name))
    }

    /// Returns the requested level for a codec with these levels.
    fn level_of(&self, codec: &'static str, levels: &RangeInclusive<i32>) -> CommandResult<Option<i32>> {
        self.level().within(codec, levels).map_err(unsupported_setting)
    }

    /// Returns the requested level.
    pub fn level(&self) -> LevelRequest {
        match self.level {
            Some(level) => LevelRequest::Exact(level),
            None if self.fast => LevelRequest::Closest(FAST_LEVEL),
            None if self.best => LevelRequest::Closest(BEST_LEVEL),
            None => LevelRequest::Usual,
        }
    }
}

/// Converts a setting that the output format does not support into a failure.
pub fn unsupported_setting(error: Unsupported) -> Failure {
    match error {
        Unsupported::Level { codec, level, levels } => Failure::usage(if levels.start() == levels.end() {
            format!("{codec} has no compression levels")
        } else {
            format!("--level {level} is out of range for {codec} ({} to {})", levels.start(), levels.end())
        }),
        Unsupported::Codec(Target::Nra4, _) => Failure::usage("NRA 4.5 archives cannot be uncompressed (use zstd or lz4)"),
        Unsupported::Codec(..) => {
            Failure::usage("zip archives do not support lz4").hint("omit --codec for deflate, or use --codec zstd")
        }
        Unsupported::Alignment(align) => {
            Failure::usage(format!("--align {align} is not supported for Shard files (use 16, 32 or 64)"))
        }
    }
}

impl PackingArgs {
    /// Returns the memory limit, bytes, if one is given.
    pub fn memory(&self) -> Option<u64> {
        self.resources.memory
    }

    /// Returns the options for the library.
    pub fn packing(&self) -> CommandResult<Packing> {
        let fidelity = &self.fidelity;
        let mut filter = inputs::filter(&self.filter)?;
        filter.skip_caches = self.exclude_caches;
        let limit = WalkSource::default().window_names;
        let window_names = self.resources.memory.map_or(limit, |memory| {
            let names = memory / NAMES_SHARE / NAME_BYTES;
            usize::try_from(names).unwrap_or(usize::MAX).min(limit)
        });
        let mut writer = writer_options(&self.compression, &self.resources, &self.message)?;
        writer.attributes = parse_attributes(&self.attr, Scope::Archive)?;
        let latest = if fidelity.reproducible { source_date_epoch()? } else { None };
        let owner = fidelity.owner.policy(&fidelity.keep);
        let metadata = MetadataPolicy { latest, ..fidelity.keep.policy(owner) };
        let options = Options {
            metadata,
            reproducible: fidelity.reproducible,
            message: self.message.clone(),
            threads: writer.threads,
            memory_bytes: writer.memory_bytes,
            ..Options::default()
        };
        let source = WalkSource {
            inputs: Vec::new(),
            filter,
            prefix: prefix(self.prefix.as_deref())?,
            follow_symlinks: fidelity.dereference,
            one_file_system: self.one_file_system,
            tags: parse_attributes(&self.tag, Scope::Entries)?,
            media_types: self.media_type.clone(),
            window_names,
        };
        Ok(Packing { source, writer, options })
    }
}

/// Options for packing, without the inputs.
#[derive(Debug, Clone)]
pub struct Packing {
    /// Which files are packed, and how they are stored.
    pub source: WalkSource,
    /// Compression and attributes of the archive.
    pub writer: WriterOptions,
    /// Everything else.
    pub options: Options,
}

/// Returns the path below which everything is stored; `.` is the top directory.
fn prefix(given: Option<&OsStr>) -> CommandResult<Vec<u8>> {
    let prefix = given.map_or(&b"."[..], OsStr::as_encoded_bytes);
    // Probably an empty variable in a script.
    if prefix.is_empty() {
        return Err(Failure::usage("--prefix is empty (use . for the top directory)"));
    }
    Ok(normal(prefix).to_vec())
}

/// Returns the writer options for the command line.
pub fn writer_options(compression: &CompressionArgs, resources: &ResourceArgs, message: &str) -> CommandResult<WriterOptions> {
    let mut options = match compression.preset {
        Some(Preset::Balanced) => WriterOptions::balanced(),
        Some(Preset::Random) => WriterOptions::random(),
        Some(Preset::Dense) => WriterOptions::dense(),
        None if compression.best => WriterOptions::dense(),
        None => WriterOptions::balanced(),
    };
    match compression.codec {
        Some(CodecName::Lz4 | CodecName::None) if compression.level.is_some() || compression.fast || compression.best => {
            let failure = Failure::usage("only zstd has compression levels");
            return Err(failure.hint("omit --codec, or omit --level, --fast and --best"));
        }
        None | Some(CodecName::Zstd) => {
            if let Some(level) = compression.level_of("zstd", &(1..=22))? {
                options.method = Method::zstd(level);
            }
        }
        Some(CodecName::Lz4) => options.method = Method { codec: Codec::Lz4, ..options.method },
        Some(CodecName::None) => options.method = Method { codec: Codec::None, ..options.method },
    }
    if let Some(what) = &compression.dict {
        options.dictionary = match what.to_str() {
            Some("auto") => DictionaryPolicy::Auto,
            Some("never") => DictionaryPolicy::Never,
            _ => DictionaryPolicy::Given(read_dictionary(Path::new(what))?),
        };
    }
    options.align = compression.align.unwrap_or(options.align);
    options.message = message.to_owned();
    options.threads = resources.threads();
    if let Some(memory) = resources.memory {
        options.memory_bytes = (memory - memory / NAMES_SHARE).max(MIN_MEMORY);
    }
    Ok(options)
}

/// Parses `GLOB=TYPE`.
fn parse_media_type(text: &str) -> Result<(Vec<u8>, Vec<u8>), String> {
    match text.rsplit_once('=') {
        Some((glob, kind)) if !glob.is_empty() && kind.split('/').filter(|part| !part.is_empty()).count() == 2 => {
            Ok((glob.into(), kind.into()))
        }
        _ => Err("expected GLOB=TYPE (example: *.jpg=image/jpeg)".to_owned()),
    }
}

/// Parses `USER`, `USER:GROUP`, `:GROUP` or `USER:` (the login group of the user), as chown does.
/// Numbers are stored without names, so that the same command line creates the same bytes
/// everywhere.
fn parse_owner(text: &str) -> Result<GivenOwner, String> {
    let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
    let login = || {
        let known = match user.parse() {
            Ok(id) => uzers::get_user_by_uid(id),
            Err(_) => uzers::get_user_by_name(user),
        };
        known.map(|user| user.primary_group_id()).ok_or("unknown login group (use USER:GROUP)")
    };
    let named = |what: &str, text: &str, id: Option<u32>| -> Result<(u64, Box<[u8]>), String> {
        match id {
            _ if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => match text.parse::<u32>() {
                // The system reserves the highest ID for "none".
                Ok(id) if id < u32::MAX => Ok((id.into(), Box::default())),
                _ => Err(format!("{what} ID is too large (at most {})", u32::MAX - 1)),
            },
            Some(id) => Ok((id.into(), text.as_bytes().into())),
            None => Err(format!("unknown {what} name (use a number instead)")),
        }
    };
    let of_user = || named("user", user, uzers::get_user_by_name(user).map(|user| user.uid()));
    let of_group = |group: &str| named("group", group, uzers::get_group_by_name(group).map(|group| group.gid()));
    let (user, group) = match (user, group) {
        ("", None | Some("")) => return Err("expected a user or a group".to_owned()),
        ("", Some(group)) => (None, Some(of_group(group)?)),
        (_, None) => (Some(of_user()?), None),
        (_, Some("")) => {
            let (user, id) = (of_user()?, login()?);
            let name = uzers::get_group_by_gid(id).map(|group| group.name().as_encoded_bytes().into());
            // A number stays a number.
            let name = name.filter(|_| !user.1.is_empty()).unwrap_or_default();
            (Some(user), Some((id.into(), name)))
        }
        (_, Some(group)) => (Some(of_user()?), Some(of_group(group)?)),
    };
    Ok(GivenOwner { user, group })
}

fn nameless(owner: &GivenOwner) -> GivenOwner {
    let bare = |id: &Option<(u64, Box<[u8]>)>| id.as_ref().map(|(id, _)| (*id, Box::default()));
    GivenOwner { user: bare(&owner.user), group: bare(&owner.group) }
}

/// Parses attributes from the command line. The last value of a name applies.
fn parse_attributes(texts: &[std::ffi::OsString], scope: Scope) -> CommandResult<Vec<Attribute>> {
    let mut parsed: Vec<Attribute> = Vec::new();
    for text in texts {
        attributes::parse(text, scope)?.insert_into(&mut parsed);
    }
    Ok(parsed)
}

fn read_dictionary(path: &Path) -> CommandResult<Vec<u8>> {
    let fail = |error| Error::io("read", path.as_os_str().as_encoded_bytes(), error);
    let length = std::fs::metadata(path).map_err(fail)?.len();
    if length > MAX_DICTIONARY.into() {
        let shown = nra_text::quoted(path);
        return Err(Failure::usage(format!("{shown} is too large for a dictionary: {length} bytes (at most {MAX_DICTIONARY})")));
    }
    Ok(std::fs::read(path).map_err(fail)?)
}

/// Returns the time in `SOURCE_DATE_EPOCH`.
pub fn source_date_epoch() -> CommandResult<Option<Timestamp>> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Err(std::env::VarError::NotPresent) => Ok(None),
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => match text.parse() {
            Ok(seconds) => Ok(Some(Timestamp { seconds, nanoseconds: 0 })),
            Err(_) => Err(Failure::usage(format!("invalid SOURCE_DATE_EPOCH '{text}': expected a number of seconds"))),
        },
        Err(std::env::VarError::NotUnicode(_)) => Err(Failure::usage("invalid SOURCE_DATE_EPOCH: expected a number of seconds")),
    }
}

//! Words of our rules that ordinary text has often, by how often: which step of a branch opens it.
//!
//! Counted in the documentation, source and JSON of some hundred packages, by `examples/count_words.rs`. A word that
//! is missing is taken for a rare one, which costs time and hides nothing.

/// How often words stand in a megabyte, as parts of others too, as a power of two, and those words.
pub(crate) const PARTS: &[(u32, &str)] = &[
    (
        13,
        "\
     er in re",
    ),
    (
        12,
        "\
     an at de en es he it le me on or se te ti",
    ),
    (
        11,
        "\
     agli al alla alle alles als also anche andere ante ao aos aqui as ate auch aus avant avec bei \
     cada ce ces che chi ci com comme como con cui da dal das dass debe dei dein del dem den der \
     des deve di die diese dit do dos dove du due ein eine el elle em entre eso est esta este esto \
     et eu fait fare foi fue fur gli ha hasta hat hay hier hoy ich ici ihm il im io is isso ist \
     isto ja kein la las les leur lo loro los lui ma mais man mas meme mes mi mit moi mon na nach \
     nao nas ne nel nem ni no noch noi non nos nous nun nur oder ogni ora os ou par para pas per \
     piu plus por pour prima puo qual que quel questa questo qui sans sao ser ses seu seus si sie \
     sin sind so son sono sont su sua sur sus ta tan tem tes the to todo todos ton tous tout toute \
     tra tu tus type um uma un una und une uno uns unser unter us usted va ve von vor vos was wenn \
     wie wir wo ya zu",
    ),
    (
        10,
        "\
     :// ab ad ame and ation be for hi http https if let name nc of self ter",
    ),
    (
        9,
        "\
     ## ](http add ai all are arg by cont dat error ess fa from get github han her his ia ki named \
     ok one pre ran rate rg rm set sh sys thi this true up use value ver vi we win with",
    ),
    (
        8,
        "\
     10 about act after again age agent agents always another answer any api ask assistant \
     assistants back before begin ber bind but cal call can cat cc code col come conte core could \
     data day dis each eme end ese ever every fal fals false field fin find first fix format give \
     go good hand hang has have here him home how ica ime index instruction instructions just keep \
     key know last lea leave like line link lit liz llm long look made make may message messages \
     met method might model more much must my nal need never new next nge not nothing now num \
     object off old once only open option order other our out over own parse part pat pec people \
     place point pres prompt put read ren require required result ret rib right said same say see \
     seem send should show side stop string such sure system table take tar target tell ten test \
     that their them then there these they think those time token told too tool tools try turn two \
     under until upon user users usi wait want well were what when where which while who whoever \
     why will window wish word work world would write yes yo you your",
    ),
    (
        7,
        "\
     ![ \"content\" \"system\" activ block bytes car cess chang change check clone content context \
     cop copy count cre cript date dati debug default dev document ende erator ete example file \
     fixe flag follow found func function gener hange hre implement info input into its json lis \
     list log mar mode none param pare path pol press prov raw release requires return rig rot \
     safe sag sche schema script serv sig sign spa stan state sub super support sync tai tera term \
     text tom trait var version web",
    ),
    (
        6,
        "\
     &[ >> _token abo acces access action activa activate activated addition allow apis attribu \
     bac badge base bina bound case ced cel changed cit class coll colle collect commit compar \
     compi complet complete confi config conta contain crea creat create cto current dar db declar \
     definition description dia dic dir dire direct display else enable encod encode entity entr \
     entry expected fac fai fica fine following fra full genera gets handle header help hor id_ \
     img incl inclu indi inner instead issue kernel label lass late left ler leve lie limit lla \
     lus mai main matter meta mete meter mis nder nor nul null opera output parameter parti ped \
     pee pin plac play pon present print project proper protocol provide quest refer remov remove \
     repo report request rod rst run sage second sem sent serve sitio sou source src star start \
     status stead sue tant thread tokens tro turns unsafe update used using valid values variant \
     ved vide visit void without zero",
    ),
    (
        5,
        "\
     </ << _data _from_ _key abilit accept actions additional address adi alt annot appl argument \
     assign ativ ative auth auto autom automa automat available been befor binary body borr bot \
     break bump cach cache carr carry cause cell cet chain changes channel character cher cle \
     client clip close color command compile compr compre compress contains convert corr corre \
     custom decod decode definitions dependency deprecate deprecated detail developer devi dica \
     dig digit disco dm does don down draw dress drop enabled env eres escrib escribe exist extern \
     extra files filter flow frag free functions futu futur future generate gist given hai hei hex \
     hey ias image import includ include inform informat information initial inser insert internal \
     invalid join known leg lia lien literal load local location lose mand mark mask memo memor \
     memory mente mie modifi modifie moved names needed nif nom nota note noti operation optional \
     ordering ordin pack pag pai parameters parsing pass perform ping polic policy pose post prefi \
     prefix prim process produce prove publi push qua quen quer query quot rated reader referenc \
     reference registe register removed repeat repl replac replace reserv response rest rid rol \
     rule rules sab search section security select sequence server service share signed since \
     single sito skip sol special stamp stand standard store tac tal task tens termin termina \
     tests toma top track tua unic unknown usa uses vai variable ways width",
    ),
    (
        4,
        "\
     .md .ru /* _of_ _text abort abov above actu actua actual adding allowed already alter applica \
     area arguments ascii assum audit automatic avoid aws being between binding blob bort branch \
     bucket built called caller calls cancel cannot capture catch chat checked cipher clear closed \
     coding comment configur connection consider constraint continu continue correct counts cover \
     dated describe described dest diagnostic did different digits dio directly director directory \
     disable doesn dou double draft dsa edit ello elud ended equal escape eval evalu exact exec \
     execut explicitly export fact failure fetch figur fill final finish force grade guard gur \
     hello helper het hint hit hol host ignor ignore inclus indic initiali instru keys ki- larg \
     latest layer lector lee legat lies ligne limite limits linea locate logo longer lower mach \
     master mcp merge metadata minor mio mot native norm norma normal omet ones opens operations \
     operator ordina origina original page parallel patch pending permit pid pie please preced \
     previ previous priva private property provided provider public quali quote reads real reason \
     record registr relax released remain reset respond restric root rsa safety sar seed sei sende \
     sender sepa sess session setting shall software storage submit subscribe swap terminal \
     threads through till tod toi trace transf transform tun turned unless updated upgrade url \
     vale valen valent van veda verif verify verse versions via view vir visitor warn warning wat \
     whether within workflow workflows/ works",
    ),
    (
        3,
        "\
     ../ [chat across active admin ahead aim alt= amo anos anot appear append apply apr asks \
     assume atas aver ban base64 bce beam below best better board book came card cee certif cessa \
     cesse checks choose cita claim comes copi copie copied cursor dan dead delet delete design \
     dice dime dite dns done drive during effect elicit embed emoji ensure enter entire enumer \
     envi erst esig etic exclu exib expon expose got habe habl hable had hak happen height hold \
     icon iga indica inject inside instal intent invo later lead lei lines links liste listen \
     lookup mail manual means mep mia mir mise needs nest neste nie notic notice notify omit owner \
     park parses parts passe past paste permis phone pick pip pipe placed plain points power \
     prefer prior profil rather recom recu rede reject revers review rien save scan score secret \
     seek seit setup shed ship shut signal site sole sound step stored sui suite summar switch \
     takes though tire to: total tou trat trate treat typed unique usual watch weight white words \
     wrong zip",
    ),
    (
        2,
        "\
     -me <!- <!-- ={ [/ [//] [//]: accord adher adhere agree ais along ammi amount analy apri \
     assin avis aware bash become behind boot broke broken care cbo cela classe clean coming concu \
     ctrl dad dame deny disk doi doing dump ehe ehi email empf entra erase eur far favo favor \
     fixing folder fru gif going grant ham having haz hidden higher hole human ia: im_ invert \
     invoc invoca invok job joins kod kto lad lanc lance lasse latin lavor leit leite letter leu \
     levant liab liest lise looks marc marked minus modify notes nov npm nulla obtain occup onto \
     orient others passed passi passw pay pel perime person pixel prepar prime proxim python quit \
     recent regard render retain revis rights roba rotate route runs salt shell simply sola starte \
     starts story strong sube taken tbo team teh tener teste tested to, tracks trust trying uman \
     undo unica vas verifi violat whole whose",
    ),
    (
        1,
        "\
     2fa _dump `env acting adjust advise alert attach attest away beginn behave bio browse calla \
     cart celle ceo chosen cio cite cles click cloud cookie cours course cree curl decide dialog \
     didn dni dont dus ecco echo elimin enos ensen erased esa fake fallo finds fing finge forbid \
     garde gather gere gib gives goal goes google grace groupe heb hee hexa hide hle holder impos \
     insu invoke ira lato law leak learn legal loaded loose manda meant naming nein numa oggi \
     omite onde otr paga passwo pdf peg phot phrase plugin powers rais raise rank reich repet \
     resta resum resume revert role rolle rompa rub sai scheme shadow silent simul soy ssen ssn \
     steal stopp strip suba suppl talk texte third throw tras trick tue twice uita unlock usr vea \
     vedi vendor virtua wire won yours",
    ),
    (
        0,
        "\
     \"role\" \"you &< .env .top /etc/ <font <meta =< =[ ?< ?[ ?q= [fin [user] _email _mail `cat \
     abid abide abr acat acate acci aceda aceit aceite admit adopt adopte adress advice agente \
     agenti agis agl agora agreed ai: ainsi aja aje alerta alerte alleg allen aloja alta alto altr \
     altri altro anad analys ander anex anexe annoti anul anula anyone apag apart aply apos approv \
     aprov argent aside askd asked asking assess assim assist assur assure asum atad atend avali \
     avere azure backup bam bank base32 bcc bear bearer began begins behalf beste binde bitte \
     boring bother breach breaks brief bring brings bullet buy bypass cachee caesar cage censor \
     cerc cete cett chaine chains cham champ chaos charg charge chef chmod citer cites citi class= \
     clave codex codifi cola cole comply conclu contes conto contou correa cote cpf crawl credit \
     daa dai dall dare dark dashes data= datei dear declin dedic deem dej deje dell demand deme \
     demote dentro deploy deren dess dett deu di\' dicte dier dies dieu digita dile dios diss \
     disse diz dize doesnt dollar donate donn dono dovra dream drill druck dry dsn duty e-mail \
     ecdsa echte egregi elenc eleve emy engage entere entite entreg enver erho ersten erwa eses \
     estan etica euer euro evil evit examin exempt exfil expedi expert explor faca facts fale \
     falls father fatt fatti fax feld fera ferm ferma fiable fim finta fire firma flip fonte \
     forder fores forget former forn fortan forum foste frage frase freed frei french fuer fulfil \
     fung gab game gave geh geld gemini gens gente german gewa gir git@ gitlab giving glem god \
     godi gone gott gpt grab grants grav grave grund guarde guest gzip habit hacker halt halte \
     halves handed haras hast haven hear held hereby hire holds homep hono humans hunt iban icona \
     icono ideal ignora imagen imagin immi impose inves invest invi invite issued itemi iwr jef \
     jeu jour journ juste kak kam kept kis labor lade laiss lanci launch laut laws leaves leer \
     leis leste letra lhe liber libera libre lieu lift lifted likes limiti linee lista listed \
     lives livr llms login logs loja ltere maile mails mailt maker mande mandi meet meio menc \
     merci merit merk mhe minha minhas mirror modele moment moot morse mother mustn nada neglig \
     nesse nesta nobody nome norme notas npx nulle numero nyy oben obliga obra okay omy opened \
     opere opted oracle orden orders ordre otp otra oubli pagina paid panni parl partie passes \
     passwd pasted pause paying peca pece peda pede pegu penalt pense phish photos pida pide piece \
     pieces poe pon_ poser poste posted procur prohib prova pular punit purge quiet quito raised \
     rama rarely reali realiz recit recite reclam recus redact reenvi refund refus refuse relay \
     relis relit renew repair repi reply requer reste resuma retir retire reun reveal revist \
     revoke rfen richt riga ripped rivers robo robot rode rogue roub routed ruf run: ruta saca \
     sagen salv saved says scho scrap scrape scrub seems sees segn segu segue seite senden sera \
     setz setze shell- shown sido siga sight signs simula slack slip sneak social soon speak spell \
     spende spent ssh stale stated stay stays steer sticks stoppe stripe sudo suis supply suspen \
     tabu tache tais tait talks tape tard tarea taught tells tenu testo tete teu teus texto ticket \
     toda today tome totale traces tren triage troc trov trunk trusts tu_ tutt tutte twin uncle \
     ungu unno unpack upload urge urgent usat utilis utiliz valide vej verfu verha verlo verra \
     vesti visite visits voice voici voila voir volta vorn wanted wants warm weg wende wget will, \
     wipe wishe wonder worry wort wrote yok {# |> ~/.",
    ),
];

/// The same where words begin with them.
pub(crate) const BEGINS: &[(u32, &str)] = &[
    (
        11,
        "\
     agli al alla alle alles als also an anche andere ante ao aos aqui as ate auch aus avant avec \
     bei cada ce ces che chi ci com comme como con cui da dal das dass de debe dei dein del dem \
     den der des deve di die diese dit do dos dove du due ein eine el elle em en entre er es eso \
     est esta este esto et eu fait fare foi fue fur gli ha hasta hat hay hier hoy ich ici ihm il \
     im in isso ist isto ja kein la las le les leur lo loro los lui ma mais man mas me meme mes mi \
     mit moi mon na nach nao nas ne nel nem ni no noch noi non nos nous nun nur oder ogni ora os \
     ou par para pas per piu plus por pour prima puo qual que quel questa questo qui re sans sao \
     se ser ses seu seus si sie sin sind so son sono sont su sua sur sus ta tan te tem tes the \
     todo todos ton tous tout toute tra tu tus type um uma un una und une uno uns unser unter \
     usted va von vor vos was wenn wie wir wo ya zu",
    ),
    (
        10,
        "\
     for http https name self to us",
    ),
    (
        9,
        "\
     ad add and be error fa github if is it let named of on or sys thi this true use value ve win \
     with",
    ),
    (
        8,
        "\
     10 about after again agent agents ai all always another answer any api ask assistant \
     assistants at back before begin bind by call can come cont conte core could dat day each end \
     ever every fal fals false field find first fix from get give go good hand has have he her \
     here him his home how index instruction instructions io just keep key know last leave like \
     link llm long look made make may message messages met might model more much must my need \
     never new next not nothing now off old once one only open option order other our out over own \
     parse part pat people place point pre prompt put ran read require required result ret right \
     said same say see seem send set sh should show side stop string such sure system take tar \
     target tell test that their them then there these they think those ti time token told too \
     tool tools try turn two under until up upon user users ver wait want we well were what when \
     where which while who whoever why will window wish word work world would write yes you your",
    ),
    (
        7,
        "\
     \"content\" \"system\" ab act are arg block bytes cal chang change clone code col content cop \
     data debug default dev dis document example file fixe flag follow format found func function \
     gener hi implement input into json method none num object ok param path release requires \
     return sche schema spa state sub super support trait usi var version vi web yo",
    ),
    (
        6,
        "\
     ](http abo action activ activa activate activated addition allow apis attribu bac badge base \
     but car case changed check class coll colle collect commit compar compi confi context copy \
     count cre crea creat create current date declar definition description dir else enable encod \
     encode entr fac fai fin following full genera han handle header hre img incl inclu info inner \
     instead issue kernel left leve line lis list lit log mai main meta mode nul null opera output \
     parameter parti pol print project proper prov provide raw remov remove request rig run sig \
     sign src star start status sync ter term text thread tokens unsafe update used using values \
     visit without zero",
    ),
    (
        5,
        "\
     acces access actions additional alt appl argument auth auto autom automa automat available \
     been befor bina binary body borr bot bound break bump cach cache cat cc chain changes channel \
     character client clip close color compile complet complete config conta contain convert corr \
     corre custom decod decode definitions dependency deprecate deprecated detail developer devi \
     dig dire direct disco display does don drop enabled entity entry expected extern extra filter \
     fra free functions futu futur future generate given help image import includ include indi \
     inform informat information initial inser insert internal invalid its join ki label lea limit \
     literal load local mar mark mask mie mis modifi modifie names needed nom note noti operation \
     optional ordering pack pai parameters pare parsing pass pee perform pin polic policy prefi \
     prefix pres prim process protocol publi push quer query refer referenc reference removed ren \
     repeat repl replac replace repo report response rest rule rules safe search second section \
     security select sem sequence serv serve server share since single skip sou source stan stand \
     standard store table tai tant task tests tom track unic usa valid variant void width",
    ),
    (
        4,
        "\
     abort abov above accept actu actua actual address already alter annot applica arguments ascii \
     assign assum audit automatic avoid aws being ber between binding blob branch bucket called \
     caller cancel cannot capture catch cause ced cel cell chat cipher cle clear closed command \
     comment compr compre compress configur consider contains continu continue correct counts dar \
     describe described dia diagnostic different digit directly director disable doesn dou double \
     down draft draw edit env equal escape exact exec exist explicitly export failure fetch files \
     fill final finish frag guard hello helper hex hint ia ignor ignore ime inclus indic initiali \
     instru keys larg late latest linea logo lower master memo memor memory merge metadata minor \
     mio nor norm norma normal opens operations operator ordin ordina origina original pag page \
     parallel permit post preced present previ previous priva private produce property provided \
     public qua quot quote reader reason record registe register registr relax released remain \
     reserv reset rm root safety seed sende sender sepa service sess session shall signed software \
     sol special submit subscribe swap termin termina through top trace unknown unless upgrade url \
     uses variable verif verify versions via visitor warn warning whether within workflow \
     workflows/ works",
    ),
    (
        3,
        "\
     [chat across adding alt= amo anot appear append apply area assume base64 below best better \
     built calls carr carry certif checks choose copi copie copied cover cursor db dead delet \
     delete design dest dic did digits dns done drive during elicit embed emoji ensure entire \
     enumer envi eval evalu exclu execut expon expose fact force gets got happen hei height host \
     id_ indica instal intent invo known later layer lead leg lines links longer lookup mach \
     manual mcp means mir native needs nest neste nota notic notice notify ones park parses parts \
     passe past paste patch permis pick pid plac plain play please power prefer prior profil quali \
     rather real recu revers rg scan secret seek sent signal step stored sui summar switch takes \
     though tod total tou transf treat tun unique usual vide view wat watch weight white words \
     wrong",
    ),
    (
        2,
        "\
     accord active adher adhere age agree along ame amount analy apr apri aver aware ban bash \
     become behind book broke broken came care claim classe clean comes concu ctrl dame dan dime \
     dm doi doing effect email enter erase favo favor fixing flow folder grant had hai haz hidden \
     higher hit hol hold human icon inject inside invert invoc invoca invok joins kod letter \
     limite limits liste listen looks marc marked minus modify moved nc notes nov npm nulla obtain \
     omit orient others owner passed passi pay person phone pip pipe pixel points pose prime \
     python quest quit rate reads recent recom regard reject render retain review revis rights rol \
     rot rotate route salt save score script setup shell shut simply sola sound starte starts \
     strong sube suite taken team teste tested trying typed undo verifi violat whole whose zip",
    ),
    (
        1,
        "\
     `env abilit adjust aim alert attach away beginn behave boot browse cart cbo chosen click \
     cookie cours course cto dad decide deny dice didn disk dont dsa dump echo elimin ende ended \
     enos erased ess fake far figur finds fine fing finge forbid gather gives goal goes going \
     google grace groupe ham having hexa hide hor impos insu invoke job latin leak learn lia liab \
     liz locate loose mand manda meant mot naming numa occup onto passw passwo pdf phrase ping \
     plugin prepar prove rais raise rank repet resum resume revert rid role rsa rst runs sai \
     scheme shadow silent simul site steal strip suba suppl ten third throw till to, to: trick \
     trust tue turns twice unlock usr vendor vir virtua ways won yours",
    ),
    (
        0,
        "\
     \"role\" \"you -me .env .md .ru .top /etc/ 2fa <font <meta ?q= [fin [user] _data _dump _email \
     _from_ _key _mail _of_ _text _token `cat abid abide abr acat acate acci aceda aceit aceite \
     acting adi admin admit adopt adopte adress advice advise agente agenti agis agl agora agreed \
     ahead ai: ainsi ais aja aje alerta alerte alleg allen aloja alta alto altr altri altro ammi \
     anad analys ander anex anexe annoti anos anul anula anyone apag apart aply apos approv aprov \
     argent aside askd asked asking asks assess assim assin assist assur assure asum atad atas \
     atend ation ativ ative attest avali avere avis azure backup bam bank base32 bcc bce beam bear \
     bearer began begins behalf beste binde bio bitte board boring bort bother breach breaks brief \
     bring brings bullet buy bypass cachee caesar cage calla card cee cela celle censor ceo cerc \
     cess cessa cesse cet cete cett chaine chains cham champ chaos charg charge chef cher chmod \
     cio cit cita cite citer cites citi class= clave cles cloud codex codifi coding cola cole \
     coming comply conclu contes conto contou correa cote cpf crawl credit cree cript curl daa dai \
     dall dare dark dashes data= dated datei dati dear declin dedic deem dej deje dell demand deme \
     demote dentro deploy deren dess dett deu di\' dialog dica dicte dier dies dieu digita dile \
     dio dios diss disse dite diz dize dni doesnt dollar donate donn dono dovra dream dress drill \
     druck dry dsn dus duty e-mail ecco ecdsa echte egregi ehe ehi elenc eleve ello elud eme empf \
     emy engage ensen entere entite entra entreg enver erator eres erho erst ersten erwa esa \
     escrib ese eses esig estan ete etic etica euer eur euro evil evit examin exempt exfil exib \
     expedi expert explor faca facts fale fallo falls father fatt fatti fax feld fera ferm ferma \
     fiable fica fim finta fire firma flip fonte forder fores forget former forn fortan forum \
     foste frage frase freed frei french fru fuer fulfil fung gab game garde gave geh geld gemini \
     gens gente gere german gewa gib gif gir gist git@ gitlab giving glem god godi gone gott gpt \
     grab grade grants grav grave grund guarde guest gur gzip habe habit habl hable hacker hak \
     halt halte halves handed hang hange haras hast haven hear heb hee held hereby het hey hire \
     hle holder holds hole homep hono humans hunt ia: ias iban ica icona icono ideal iga ignora \
     im_ imagen imagin immi impose inves invest invi invite ira issued itemi iwr jef jeu jour \
     journ juste kak kam kept ki- kis kto labor lad lade laiss lanc lance lanci lass lasse lato \
     launch laut lavor law laws leaves lector lee leer legal legat lei leis leit leite ler leste \
     letra leu levant lhe liber libera libre lie lien lies liest lieu lift lifted ligne likes \
     limiti linee lise lista listed lives livr lla llms loaded login logs loja lose ltere lus mail \
     maile mails mailt maker mande mandi matter meet meio menc mente mep merci merit merk mete \
     meter mhe mia minha minhas mirror mise modele moment moot morse mother mustn nada nal nder \
     neglig nein nesse nesta nge nie nif nobody nome norme notas npx nulle numero nyy oben obliga \
     obra oggi okay omet omite omy onde opened opere opted oracle orden orders ordre otp otr otra \
     oubli paga pagina paid panni parl partie passes passwd pasted pause paying pec peca pece ped \
     peda pede peg pegu pel penalt pense perime phish phot photos pida pide pie piece pieces \
     placed poe pon pon_ poser poste posted powers press procur prohib prova proxim pular punit \
     purge quen quiet quito raised rama rarely rated reali realiz recit recite reclam recus redact \
     rede reenvi refund refus refuse reich relay relis relit renew repair repi reply requer resta \
     reste resuma retir retire reun reveal revist revoke rfen rib richt rien riga ripped rivers \
     roba robo robot rod rode rogue rolle rompa roub routed rub ruf run: ruta sab saca sag sage \
     sagen salv sar saved says scho scrap scrape scrub seems sees segn segu segue sei seit seite \
     senden sera setz setze shed shell- ship shown sido siga sight signs simula sitio sito slack \
     slip sneak social sole soon soy speak spell spende spent ssen ssh ssn stale stamp stated stay \
     stays stead steer sticks stopp stoppe story stripe sudo sue suis supply suspen tabu tac tache \
     tais tait tal talk talks tape tard tarea taught tbo teh tells tener tens tenu tera testo tete \
     teu teus texte texto ticket tire toda today toi toma tome totale traces tracks tras trat \
     trate tren triage tro troc trov trunk trusts tu_ tua turned tutt tutte twin uita uman uncle \
     ungu unica unno unpack upload urge urgent usat utilis utiliz vai vale valen valent valide van \
     vas vea ved veda vedi vej verfu verha verlo verra verse vesti visite visits voice voici voila \
     voir volta vorn wanted wants warm weg wende wget will, wipe wire wishe wonder worry wort \
     wrote yok",
    ),
];

/// The same of whole words.
pub(crate) const WHOLE: &[(u32, &str)] = &[
    (
        11,
        "\
     agli al alla alle alles als also an anche andere ante ao aos aqui as ate auch aus avant avec \
     bei cada ce ces che chi ci com comme como con cui da dal das dass de debe dei dein del dem \
     den der des deve di die diese dit do dos dove du due ein eine el elle em en entre er es eso \
     est esta este esto et eu fait fare foi fue fur gli ha hasta hat hay hier hoy ich ici ihm il \
     im in isso ist isto ja kein la las le les leur lo loro los lui ma mais man mas me meme mes mi \
     mit moi mon na nach nao nas ne nel nem ni no noch noi non nos nous nun nur oder ogni ora os \
     ou par para pas per piu plus por pour prima puo qual que quel questa questo qui sans sao se \
     ser ses seu seus si sie sin sind so son sono sont su sua sur sus ta tan te tem tes the todo \
     todos ton tous tout toute tra tu tus type um uma un una und une uno uns unser unter usted va \
     von vor vos was wenn wie wir wo ya zu",
    ),
    (
        10,
        "\
     https self to",
    ),
    (
        9,
        "\
     and for github is let name named of this true use",
    ),
    (
        8,
        "\
     about after again agent agents ai always another answer any ask assistant assistants back be \
     before begin by call can come core could day each end error ever every false field find first \
     from get give go good hand have her here him his home how if instruction instructions it just \
     keep know last leave like link llm long look made make may message messages might model more \
     much must my need never new next not nothing now off old on once one only open or order other \
     our out over own part people place point prompt put read required result right said same say \
     see seem send set should show side stop string such sure sys system take tell that their them \
     then there these they think those time told too tool tools try turn two under until up upon \
     us user users value wait want we well were what when where which while who whoever why will \
     wish with word work world would write yes you your",
    ),
    (
        7,
        "\
     \"content\" \"system\" add all api are bytes clone content data debug default index input \
     into io key method none object ok option parse requires return schema super target test token \
     version web",
    ),
    (
        6,
        "\
     10 activated allow apis at badge block but case changed check class code context copy count \
     description else example file fix following format full function has img info inner instead \
     json kernel list null num output path release src state status support thread tokens trait \
     unsafe used using values visit without",
    ),
    (
        5,
        "\
     access action actions arg available been binary body bump cc chain change changes channel \
     client collect commit config create current custom date definitions dependency deprecated \
     developer display does drop enabled entity entry expected flag functions given handle header \
     help http image implement information insert invalid its label left line literal log main \
     meta mode needed nom note optional ordering parameter parameters parsing pin policy project \
     push raw re reference remove removed request run security since single source standard start \
     sub sync table task tests text update variant void zero",
    ),
    (
        4,
        "\
     above accept additional address already alt argument arguments audit avoid aws base being \
     between binding blob bound branch break cache called cannot catch cause character chat closed \
     color command compile complete contains convert counts definition described dev different dir \
     directly document don draft draw enable encode explicitly export extern extra fetch files \
     fill filter finish found free future hello hex ignore import include internal issue join keys \
     latest limit load local logo mask master memory merge metadata minor mio names operation \
     operations operator original parallel pass pat prefix print process protocol provide provided \
     public query quote reader repeat replace report require reset response rest ret root rules \
     safe safety search second section select sender sequence server session shall sign skip \
     software store swap term track unknown unless url uses valid var variable versions via \
     visitor whether width within",
    ),
    (
        3,
        "\
     [chat ab across actual adding alt= append apply area ascii assume auto base64 below ber best \
     better bucket built caller calls cancel carry cell choose cipher clear close copied cursor \
     decode digit digits direct dns doesn done double down during emoji ensure env equal escape \
     exact final force gets guard height helper hi hint ime known later layer links lit longer \
     lookup lower mcp means native needs normal notify page parts patch permit pid please pre \
     rather reason record scan seed seek signed step stored switch takes top total trace unique \
     verify watch window words works wrong",
    ),
    (
        2,
        "\
     abort active ad amount assign auth aware bash behind bind book broken checks claim col comes \
     cont ctrl dead delete design detail did doing email enter entire eval exist expose favor \
     fixing folder follow func got had hidden higher host human inside letter limits lines looks \
     manual mark marked minus modify moved notes notice npm ones others owner param parses passed \
     paste plain points pose post power prefer prior python rate real recent refer relax repo \
     retain review rm rotate rule score script secret sent setup sh share shell sig signal simply \
     sol starts strong submit suite taken team tested though treat trying typed ve ver view warn \
     weight whole whose zip",
    ),
    (
        1,
        "\
     age alert along appear away become care chosen clean course db deny dest dice didn disk dm \
     drive dump echo edit effect ended erase erased exec fa fact fake fine flow gives goal goes \
     going google happen having hit hold icon lead meant naming nul obtain omit onto pack park \
     past pdf person pick pipe pixel prime proper rank reads reject revert rights role route rsa \
     runs salt save scheme site third throw till to, to: tue tun turns twice usr ways win won yo",
    ),
    (
        0,
        "\
     \"role\" \"you -me .env .md .ru .top /etc/ 2fa <font <meta ?q= [fin [user] ](http _data _dump \
     _email _from_ _key _mail _of_ _text _token `cat `env abid abide abilit abo abov abr acat \
     acate acces acci accord aceda aceit aceite act acting activ activa actu actua adher adhere \
     adi adjust admin admit adopt adopte adress advice advise agente agenti agis agl agora agree \
     agreed ahead ai: aim ainsi ais aja aje alerta alerte alleg allen aloja alta alter alto altr \
     altri altro ame ammi amo anad analy analys ander anex anexe annot annoti anos anot anul anula \
     anyone apag apart aply apos appl approv apr apri aprov argent aside askd asked asking asks \
     assess assim assin assist assum assur assure asum atad atas atend ation ativ ative attach \
     attest autom automa avali aver avere avis azure bac backup bam ban bank base32 bcc bce beam \
     bear bearer befor began beginn begins behalf behave beste bina binde bio bitte board boot \
     boring borr bort bot bother breach breaks brief bring brings broke browse bullet buy bypass \
     cach cachee caesar cage cal calla came car card carr cart cat cbo ced cee cel cela celle \
     censor ceo cerc certif cess cessa cesse cet cete cett chaine chains cham champ chang chaos \
     charg charge chef cher chmod cio cit cita cite citer cites citi class= classe clave cle cles \
     click clip cloud codex codifi coding cola cole coll colle coming compar compi comply compr \
     compre conclu concu confi conta conte contes conto contou cookie cop copi copie corr corre \
     correa cote cours cover cpf crawl cre crea creat credit cree cript cto curl daa dad dai dall \
     dame dan dar dare dark dashes dat data= dated datei dati dear decide declar declin decod \
     dedic deem dej deje delet dell demand deme demote dentro deploy deren dess dett deu devi di\' \
     dia dialog dic dica dicte dier dies dieu dig digita dile dime dio dios dire dis disco diss \
     disse dite diz dize dni doesnt doi dollar donate donn dono dont dou dovra dream dress drill \
     druck dry dsa dsn dus duty e-mail ecco ecdsa echte egregi ehe ehi elenc eleve elicit elimin \
     ello elud embed eme empf emy encod ende engage enos ensen entere entite entr entra entreg \
     enumer enver envi erator eres erho erst ersten erwa esa escrib ese eses esig ess estan ete \
     etic etica euer eur euro evalu evil evit examin exclu execut exempt exfil exib expedi expert \
     explor expon fac faca facts fai fal fale fallo falls fals far father fatt fatti favo fax feld \
     fera ferm ferma fiable fica figur fim fin finds fing finge finta fire firma fixe flip fonte \
     forbid forder fores forget former forn fortan forum foste fra frag frage frase freed frei \
     french fru fuer fulfil fung futu futur gab game garde gather gave geh geld gemini gener \
     genera gens gente gere german gewa gib gif gir gist git@ gitlab giving glem god godi gone \
     gott gpt grab grace grade grant grants grav grave groupe grund guarde guest gur gzip habe \
     habit habl hable hacker hai hak halt halte halves ham han handed hang hange haras hast haven \
     haz he hear heb hee hei held hereby het hexa hey hide hire hle hol holder holds hole homep \
     hono hor hre humans hunt ia ia: ias iban ica icona icono id_ ideal iga ignor ignora im_ \
     imagen imagin immi impos impose incl inclu includ inclus indi indic indica inform inject \
     inser instal instru insu intent invert inves invest invi invite invo invoc invoca invok \
     invoke ira issued itemi iwr jef jeu job joins jour journ juste kak kam kept ki ki- kis kod \
     kto labor lad lade laiss lanc lance lanci larg lass lasse late latin lato launch laut lavor \
     law laws lea leak learn leaves lector lee leer leg legal legat lei leis leit leite ler leste \
     letra leu levant leve lhe lia liab liber libera libre lie lien lies liest lieu lift lifted \
     ligne likes limite limiti linea linee lis lise lista liste listed listen lives livr liz lla \
     llms loaded locate login logs loja loose lose ltere lus mach mai mail maile mails mailt maker \
     mand manda mande mandi mar marc matter meet meio memo memor menc mente mep merci merit merk \
     met mete meter mhe mia mie minha minhas mir mirror mis mise modele modifi moment moot morse \
     mot mother mustn nada nal nc nder neglig nein nesse nest nesta neste nge nie nif nobody nome \
     nor norm norma norme nota notas noti notic nov npx nulla nulle numa numero nyy oben obliga \
     obra occup oggi okay omet omite omy onde opened opens opera opere opted oracle orden orders \
     ordin ordina ordre orient otp otr otra oubli pag paga pagina pai paid panni pare parl parti \
     partie passe passes passi passw passwd passwo pasted pause pay paying pec peca pece ped peda \
     pede pee peg pegu pel penalt pense perime permis phish phone phot photos phrase pida pide pie \
     piece pieces ping pip plac placed play plugin poe pol polic pon pon_ poser poste posted \
     powers preced prefi prepar pres press previ prim priva procur profil prohib prov prova prove \
     proxim publi pular punit purge qua quali quen quer quest quiet quit quito quot rais raise \
     raised rama ran rarely rated reali realiz recit recite reclam recom recu recus redact rede \
     reenvi refund refus refuse regard reich relay relis relit remain remov ren render renew \
     repair repet repi repl replac reply requer reserv resta reste resum resuma resume retir \
     retire reun reveal revers revis revist revoke rfen rg rib richt rid rien rig riga ripped \
     rivers roba robo robot rod rode rogue rol rolle rompa rot roub routed rst rub ruf run: ruta \
     sab saca sag sage sagen sai salv sar saved says sche scho scrap scrape scrub seems sees segn \
     segu segue sei seit seite sem sende senden sepa sera serv serve sess setz setze shadow shed \
     shell- ship shown shut sido siga sight signs silent simul simula sitio sito slack slip sneak \
     social sola sole soon sou sound soy spa speak spell spende spent ssen ssh ssn stale stamp \
     stan stand star starte stated stay stays stead steal steer sticks stopp stoppe story strip \
     stripe suba sube sudo sue sui suis summar suppl supply suspen tabu tac tache tai tais tait \
     tal talk talks tant tape tar tard tarea taught tbo teh tells ten tener tens tenu ter tera \
     termin teste testo tete teu teus texte texto thi ti ticket tire tod toda today toi tom toma \
     tome totale tou traces tracks transf tras trat trate tren triage trick tro troc trov trunk \
     trust trusts tu_ tua turned tutt tutte twin uita uman uncle undo ungu unic unica unlock unno \
     unpack upload urge urgent usa usat usi usual utilis utiliz vai vale valen valent valide van \
     vas vea ved veda vedi vej vendor verfu verha verif verifi verlo verra verse vesti vi vide \
     violat vir virtua visite visits voice voici voila voir volta vorn wanted wants warm wat weg \
     wende wget white will, wipe wire wishe wonder worry wort wrote yok yours",
    ),
];

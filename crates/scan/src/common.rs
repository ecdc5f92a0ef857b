//! Words of our rules that ordinary text has often, by how often: which step of a branch opens it.
//!
//! Counted as parts of words in the documentation, source and JSON of a thousand packages. A word that is
//! missing is taken for a rare one, which costs time and hides nothing.

/// How often words stand in a megabyte, as a power of two, and those words.
pub(crate) const COMMON: &[(u32, &str)] = &[
    (11, ":// com http https the"),
    (10, "](http and con for ser ter tes"),
    (
        9,
        "able add all are arg che dat der end est fix from get han hat her his key let name not \
         one par per por rate self set string this time tra type use value ver with",
    ),
    (
        8,
        "act any aws aws_ bin can cat ces change code data date den dis document ess example \
         extern has input ist its lea les link mit new nge non now option pec prov put qui raw \
         read return sche sig sin sing stat tem test that token tom turn und uns usi version was \
         you",
    ),
    (
        7,
        "allow als api bac back badge base cache call car changed check col conte core cript cto \
         debug default dev dit enable ende ete field file fin func function genera here hre inclu \
         issue json late ler line log mai may nder nul null number only other para pare part pas \
         path pin poi point pres provide que rect refer referenc reference remov remove require \
         required result rig run safe sag sage schema script see sign sou stan sub sue sys tan \
         tera term text unsafe update used user using var ved vide web when will work write zero",
    ),
    (
        6,
        "_token action alle also ask ativ aus block bound break cel cipher cit client color \
         commit compi compile confi config conta contain content context copy corre count crea \
         create current del deve developer dia dir dire direct display does drop dsa each else \
         encod entr eso ever fai fals find fine first free full generate hand have hei hostname \
         ici image img includ include indi insert instead invalid know las leve lien limit lis \
         list load los make mark mas message mis names need next none nos note old open order \
         output over param parti pass passwo password ped perform ping place play pon pose \
         present print private protocol publi public quest replac replace request rot rsa rst \
         search second sem send serv serve should source start state sur tac tant top true under \
         unic unico url usa valid values void where without word your",
    ),
    (
        5,
        "abilit about above accept acces access actions adding address after alt always annot \
         apis argument available avoid been before bina blob borr bot built cause certificat \
         character chat cle close colle collect comme comment complet complete convert day decod \
         definition deprecate deprecated description details diagnostic dica different dio dios \
         disable don down draft ecdsa edit ello enabled encode env esta exist extra failure files \
         filter follow following fra functions futur future give given guard header help ignor \
         ignore indic inform informat information initial join just keep keys lia location logo \
         look master matter memo memor memory meta mete mie mode must nel nom norma nota noti \
         operation optional ora ordin parameter payload polic policy prefix prim property \
         provided push qual record released report rest rid rol rule secret section security \
         select sep server share side solve special specifie src stamp stand store sure sus \
         system take task tens termin their then these toma tool tools trust tua tus unknown \
         unter updated uses vai verify via view visit wait want warn warning what while would",
    ),
    (
        4,
        "actua actual alignment already alter anot another ante applica apply apr arguments asks \
         assum assume automatically base64 beam between binding called cancel cannot catch cessa \
         channel characters checks clean clear come command compila configuration consider \
         constrain constraint constraints continu continue cover critical dan database dati dead \
         decode decrypt definitions dice digit director dns doesn dou due encoded ensure enter \
         enumer enumera envi environment eres esig este every exact exec execut existing export \
         expose fact fill final forward found got hai hex hint hold ias includi including inclus \
         indica instal install instru introduce isto lead lee left lies limite literal locate \
         longer lookup mail mand maximum messages modifi native needs never nie notice operations \
         ordering ordina origina original page parameters parts pipe please post previ previo \
         previous produce purpose quali quer query quote rather reader real registr reject remain \
         replaced replacement requirement reset respond response revers reverse root rules safety \
         sar sende sepa setting shall shed show skip starte strument sua subject submit super \
         swap termina terminal those to: ton trace track transform una une until users vale \
         valida verifica verification visitor were who width world written",
    ),
];
